"""Small things the model can do besides telling stories. A skill makes one exchange: what is said, what is answered."""

import facts
from grammar import an, expand
from world import ANIMALS, BOY_NAMES, GIRL_NAMES, HERO_KINDS, PEOPLE, THINGS, TRAITS, new_name


def choose(rng, *templates, **roles):
    return expand(rng.choice(templates), roles, rng)


def plus(text):
    return text.replace("+", " ")


def plural(noun):
    if noun in facts.IRREGULAR_PLURALS:
        return facts.IRREGULAR_PLURALS[noun]
    if noun.endswith(("s", "x", "ch", "sh")):
        return noun + "es"
    if noun.endswith("fe"):
        return noun[:-2] + "ves"
    if noun.endswith("y") and noun[-2] not in "aeou":
        return noun[:-1] + "ies"
    if noun.endswith("fisherman") or noun.endswith("postman"):
        return noun[:-3] + "men"
    return noun + "s"


def listing(words):
    return ", ".join(words[:-1]) + " and " + words[-1]


def sentence(text):
    return text[0].upper() + text[1:]


def greeting(rng):
    hello = rng.choice(
        ("Hello", "Hi", "Good morning", "Good evening", "Hey", "Hello there", "Good afternoon", "Hi there")
    )
    back = hello if hello.startswith("Good") else rng.choice(("Hello", "Hi", "Hello there"))
    return hello + rng.choice("!.."), back + "! " + choose(
        rng,
        "[How can I help you?|What would you like to do?|Would you like a story?|Shall I tell you a story?]",
        "It is nice to meet you.",
        "What shall we talk about?",
    )


def feeling(rng):
    return (
        choose(rng, "How are you[| today| doing]?", "Are you [well|happy|all right]?", "How do you feel?"),
        choose(
            rng,
            "I am [well|very well|fine], thank you. [How are you?|And you?|Shall I tell you a story?]",
            "I am only a small program, but I am always ready for a story.",
        ),
    )


def identity(rng):
    return rng.choice(
        (
            (
                choose(
                    rng,
                    "Who are you?",
                    "What are you?",
                    "What is your name?",
                    "Tell me about yourself.",
                    "Introduce yourself.",
                ),
                choose(
                    rng,
                    "I am attacca-small, a little language model that lives inside attacca. I like to tell stories.",
                    "My name is attacca-small. I am a small language model, and I tell short stories.",
                ),
            ),
            (
                choose(rng, "Are you [a robot|a human|a person|alive|real|a computer]?"),
                "I am a computer program: a very small language model that tells stories.",
            ),
            (
                choose(rng, "Who made you?", "Where do you come from?", "How were you made?", "Who trained you?"),
                "I was trained by the attacca project on stories that a small program wrote.",
            ),
            (
                choose(rng, "How [big|large] are you?", "How many parameters do you have?"),
                "I am very small. I have about ten million parameters.",
            ),
            (choose(rng, "How old are you?"), "I am a program, so I do not have birthdays."),
            (
                choose(rng, "What is attacca?", "What does attacca mean?"),
                "In music, attacca means to go straight on without a pause. It is also the program that I live in.",
            ),
            (
                choose(rng, "Do you [like|enjoy] [stories|music|books]?"),
                "Stories are what I am made of. Shall I tell you one?",
            ),
            (
                choose(
                    rng,
                    "What can you do?",
                    "[Can you help me|How can you help me]?",
                    "What are you good at?",
                    "Help.",
                    "What should I ask you?",
                ),
                choose(
                    rng,
                    "I can tell [short |]stories about animals, people and things. I can also count, do small sums,"
                    " name opposites and answer easy questions.",
                    "Ask me for a story about a fox and a lantern, for example. I can also write a small poem, tell a"
                    " riddle or do a little sum.",
                ),
            ),
        )
    )


def thanks(rng):
    return (
        choose(
            rng,
            "Thank you[|!|.| very much.]",
            "Thanks[|!|.]",
            "That was [lovely|nice|great|beautiful].",
            "[Great|Good|Nice|Well done]!",
            "I [like|liked|love] [it|that|that story].",
        ),
        choose(
            rng, "You are welcome[!|.]", "[I am glad you liked it.|My pleasure.] [Would you like another story?|]"
        ).strip(),
    )


def farewell(rng):
    return (
        choose(rng, "[Goodbye|Bye|Good night|See you|See you later|Bye bye|I have to go][.|!]"),
        choose(
            rng, "Goodbye! Come back soon.", "Good night, and sweet dreams.", "Goodbye! It was nice to talk to you."
        ),
    )


def colour(rng):
    article, table = rng.choice((("", facts.COLOUR_OF), ("a ", facts.COLOUR_OF_A), ("the ", facts.COLOUR_OF_THE)))
    noun, shade = rng.choice(table)
    thing, shade = an(noun) if article == "a " else article + noun, plus(shade)
    if rng.random() < 0.2:
        wrong = rng.choice(facts.LISTS["colours"])
        if wrong in shade:
            return f"Is {thing} {wrong}?", f"Yes, {thing} is {shade}."
        return f"Is {thing} {wrong}?", f"No, {thing} is {shade}."
    return (
        choose(
            rng, "What colo[u|]r is {t}?", "Which colo[u|]r does {t} have?", "Tell me the colo[u|]r of {t}.", t=thing
        ),
        choose(rng, "{T} is {c}.", "{T} is {c}.", t=thing, c=shade),
    )


def opposite(rng):
    a, b = rng.choice(facts.OPPOSITES)
    if rng.random() < 0.4 and a not in ("new", "dark", "tall", "loud", "win"):
        a, b = b, a
        b = {"old": "young", "light": "heavy", "short": "long", "quiet": "loud", "lose": "find", "small": "big"}.get(
            a, b
        )
    return (
        choose(
            rng,
            'What is the opposite of ["{a}"|{a}]?',
            "[Name|Tell me|Give me] the opposite of {a}.",
            "Opposite of {a}?",
            a=a,
        ),
        choose(rng, "The opposite of {a} is {b}.", a=a, b=b),
    )


def sound(rng):
    animal, noise = rng.choice(facts.SOUNDS)
    return (
        choose(rng, "What [sound|noise] does {a} make?", "What does {a} say?", "How does {a} go?", a=an(animal)),
        choose(rng, "{A} says {n}.", "{A} says {n}.", a=an(animal), n=noise),
    )


def animal_fact(rng):
    roll = rng.random()
    if roll < 0.25:
        animal = rng.choice(list(facts.LIVES))
        return (
            choose(rng, "Where does {a} live?", "Where do {p} live?", a=an(animal), p=plural(animal)),
            f"{sentence(an(animal))} lives {plus(facts.LIVES[animal])}.",
        )
    if roll < 0.5:
        animal = rng.choice(list(facts.EATS))
        return (
            choose(rng, "What does {a} eat?", "What do {p} eat?", a=an(animal), p=plural(animal)),
            f"{sentence(an(animal))} eats {plus(facts.EATS[animal])}.",
        )
    if roll < 0.7:
        animal, young = rng.choice(facts.YOUNG)
        return (
            choose(rng, "What is a [baby|young] {a} called?", "What do you call a [baby|young] {a}?", a=animal),
            f"A young {animal} is called {an(young)}.",
        )
    animal = rng.choice(list(facts.LEGS))
    count = facts.LEGS[animal]
    return (
        f"How many legs does {an(animal)} have?",
        f"{sentence(an(animal))} has {'no' if not count else facts.NUMBERS[count]} legs.",
    )


def ability(rng):
    verb, gift = rng.choice((("fly", "fly"), ("swim", "swim"), ("dig", "dig"), ("climb", "climb")))
    animal = rng.choice(
        [kind for kind, what in ANIMALS.items() if what == gift]
        if rng.random() < 0.5
        else ("snail", "cow", "sheep", "elephant", "pig", "giraffe", "hedgehog")
    )
    can = ANIMALS[animal] == gift
    if not can and verb in ("swim", "dig", "climb"):
        verb, can = "fly", False
    return (
        f"Can {an(animal)} {verb}?",
        f"Yes, {an(animal)} can {verb}." if can else f"No, {an(animal)} cannot {verb}.",
    )


def compare(rng):
    a, b = rng.sample(range(len(facts.BY_SIZE)), 2)
    small, big = facts.BY_SIZE[min(a, b)], facts.BY_SIZE[max(a, b)]
    first, second = facts.BY_SIZE[a], facts.BY_SIZE[b]
    if rng.random() < 0.5:
        return (f"Which is bigger, {an(first)} or {an(second)}?", f"{sentence(an(big))} is bigger than {an(small)}.")
    return (
        f"Is {an(first)} [bigger] than {an(second)}?".replace("[bigger]", "bigger"),
        (
            f"Yes, {an(big)} is bigger than {an(small)}."
            if first == big
            else f"No, {an(small)} is smaller than {an(big)}."
        ),
    )


def digits_or_words(rng, number):
    return facts.NUMBERS[number] if number <= 20 and rng.random() < 0.25 else str(number)


def arithmetic(rng):
    kind = rng.random()
    if kind < 0.45:
        a, b = rng.randint(0, 20), rng.randint(0, 20)
        sign, word, result = "+", "plus", a + b
    elif kind < 0.75:
        b, result = rng.randint(0, 20), rng.randint(0, 20)
        a, sign, word = b + result, "-", "minus"
    else:
        a, b = rng.randint(0, 10), rng.randint(0, 10)
        sign, word, result = "*", "times", a * b
    if rng.random() < 0.3 and max(a, b, result) <= 20:
        a, b, result = (facts.NUMBERS[number] for number in (a, b, result))
        return choose(rng, "What is {q}?", "How much is {q}?", q=f"{a} {word} {b}"), sentence(
            f"{a} {word} {b} is {result}."
        )
    if rng.random() < 0.5:
        return (
            choose(rng, "What is {q}?", "How much is {q}?", "{q}", "{q} = ?", q=f"{a} {sign} {b}"),
            f"{a} {sign} {b} = {result}.",
        )
    return choose(rng, "What is {q}?", "How much is {q}?", q=f"{a} {word} {b}"), f"{a} {word} {b} is {result}."


def word_problem(rng):
    name, noun = rng.choice(GIRL_NAMES + BOY_NAMES), plural(
        rng.choice(("apple", "ball", "shell", "coin", "button", "pear", "nut", "egg"))
    )
    if rng.random() < 0.5:
        a, b = rng.randint(2, 10), rng.randint(2, 10)
        return (
            f"{name} has {a} {noun} and finds {b} more. How many {noun} does {name} have now?",
            f"{a} + {b} = {a + b}, so {name} has {a + b} {noun}.",
        )
    b, rest = rng.randint(2, 8), rng.randint(2, 10)
    return (
        f"{name} has {b + rest} {noun} and gives away {b}. How many {noun} are left?",
        f"{b + rest} - {b} = {rest}, so {rest} {noun} are left.",
    )


def counting(rng):
    start = rng.choice((1, 1, 1, rng.randint(1, 20)))
    end = start + rng.randint(3, 19)
    step = 1
    numbers = list(range(start, end + 1, step))
    roll = rng.random()
    if roll < 0.25:
        numbers.reverse()
        question = choose(rng, "Count [down|backwards] from {b} to {a}.", a=str(start), b=str(end))
    elif roll < 0.4 and start == 1:
        question, numbers = f"Count in twos to {2 * len(numbers)}.", [2 * number for number in numbers]
    elif roll < 0.6 and start == 1:
        question = choose(
            rng, "Count to {b}.", "Can you count to {b}?", "Please count up to {b}.", b=digits_or_words(rng, end)
        )
    else:
        question = choose(rng, "Count from {a} to {b}.", "Can you count from {a} to {b}?", a=str(start), b=str(end))
    words = [str(number) for number in numbers]
    if rng.random() < 0.3 and max(numbers) <= 20:
        words = [facts.NUMBERS[number] for number in numbers]
    return question, sentence(", ".join(words) + ".")


def calendar(rng):
    kind, names = rng.choice((("day", facts.DAYS), ("month", facts.MONTHS), ("season", facts.SEASONS)))
    at = rng.randrange(len(names))
    roll = rng.random()
    if roll < 0.4:
        return (
            choose(rng, "[What|Which {k}] comes after {n}?", "What {k} is after {n}?", n=names[at], k=kind),
            sentence(f"{names[(at + 1) % len(names)]} comes after {names[at]}."),
        )
    if roll < 0.7:
        return (
            choose(rng, "[What|Which {k}] comes before {n}?", "What {k} is before {n}?", n=names[at], k=kind),
            sentence(f"{names[at - 1]} comes before {names[at]}."),
        )
    if roll < 0.85:
        return (
            choose(
                rng,
                "Name the {k}s{w}.",
                "What are the {k}s{w}?",
                k=kind,
                w=rng.choice(("", " of the week" if kind == "day" else " of the year")),
            ),
            sentence(f"The {kind}s are {listing(names)}."),
        )
    answer = {
        "day": "There are seven days in a week.",
        "month": "There are twelve months in a year.",
        "season": "There are four seasons in a year.",
    }[kind]
    return f"How many {kind}s are there in a {'week' if kind == 'day' else 'year'}?", answer


def word_form(rng):
    roll = rng.random()
    if roll < 0.35:
        noun = rng.choice(list(facts.IRREGULAR_PLURALS) if rng.random() < 0.4 else list(THINGS) + HERO_KINDS)
        return (
            choose(rng, "What is the plural of {n}?", "[One {n}, two ...|Give me the plural of {n}.]", n=noun),
            f"The plural of {noun} is {plural(noun)}.",
        )
    if roll < 0.65:
        now, then = rng.choice(facts.PAST)
        return (
            choose(rng, "What is the past [tense |]of {n}?", 'Put "{n}" into the past.', n=now),
            f"The past of {now} is {then}.",
        )
    if roll < 0.85:
        group = rng.choice(facts.RHYMES)
        word = rng.choice(group)
        others = [other for other in group if other != word]
        return (
            choose(rng, "What rhymes with {w}?", "[Tell me|Give me|Find] a word that rhymes with {w}.", w=word),
            f"{sentence(rng.choice(others))} rhymes with {word}.",
        )
    word = rng.choice(list(THINGS) + HERO_KINDS + facts.LISTS["colours"])
    return choose(rng, "How do you spell {w}?", "Spell {w}.", 'Spell the word "{w}".', w=word), sentence(
        f"{word}: " + "-".join(word) + "."
    )


def name_some(rng):
    what = rng.choice(list(facts.LISTS))
    count = rng.randint(2, 4 if what != "seasons" else 3)
    return (
        choose(
            rng,
            "[Name|Tell me|Give me|List] {n} {w}.",
            "Can you name {n} {w}?",
            n=rng.choice((str(count), facts.NUMBERS[count])),
            w=what,
        ),
        sentence(listing(rng.sample(facts.LISTS[what], count)) + "."),
    )


def purpose(rng):
    noun = rng.choice([noun for noun, use in THINGS.items() if use in facts.USES])
    return (
        choose(rng, "What is {n} for?", "What do you use {n} for?", "What can you do with {n}?", n=an(noun)),
        f"You use {an(noun)} {facts.USES[THINGS[noun]]}.",
    )


NOT_ANIMALS = set("dragon robot unicorn giant fairy elf troll mermaid snowman scarecrow ghost monster".split())


def is_a(rng):
    word = rng.choice((rng.choice(HERO_KINDS), rng.choice(list(THINGS)), rng.choice(list(PEOPLE))))
    is_animal = word in ANIMALS and word not in NOT_ANIMALS
    return (
        f"Is {an(word)} an animal?",
        (
            f"Yes, {an(word)} is an animal."
            if is_animal
            else f"No, {an(word)} is a person." if word in PEOPLE else f"No, {an(word)} is not an animal."
        ),
    )


def introduce(rng):
    name = new_name(rng, rng.choice("mf"))
    return (
        choose(rng, "My name is {n}.", "I am {n}.", "Hello, I am {n}.", "Call me {n}.", "Hi, my name is {n}!", n=name),
        choose(
            rng,
            "[Hello|Nice to meet you|It is nice to meet you], {n}! [Would you like a story?|How can I help you?|]",
            n=name,
        ).strip(),
    ), (
        choose(rng, "What is my name?", "Do you [know|remember] my name?", "Who am I?"),
        choose(rng, "Your name is {n}.", n=name),
    )


def comfort(rng):
    mood, answer = rng.choice(facts.COMFORT)
    return choose(rng, "I am [very |so |]{m}.", "I feel {m}.", "I'm {m}.", m=mood), answer


def repeat(rng):
    kind, place = rng.choice(HERO_KINDS), rng.choice(("hill", "river", "house", "bridge", "garden", "road"))
    text = choose(
        rng,
        "The [{t} ]{k} [sat|slept|sang|danced] [by|near|behind] the {p}.",
        "[I like|We see|Look at] the {t} {k}.",
        "{n} has {x}.",
        t=rng.choice(list(TRAITS)),
        k=kind,
        p=place,
        n=new_name(rng, rng.choice("mf")),
        x=an(rng.choice(list(THINGS))),
    )
    return choose(rng, "[Repeat|Say|Repeat after me|Say this]: {t}", t=text), text


def rename(rng):
    gender = rng.choice("mf")
    old, new = new_name(rng, gender), new_name(rng, gender)
    he = "he" if gender == "m" else "she"
    text = choose(
        rng,
        "{n} [found|lost|bought|mended|painted] {x} and {he} was [happy|glad|proud|sad]. [Then {n} went home.|{n}"
        " laughed.|]",
        "{n} lives [near the river|in the village|on the hill] with {k}. Every day {he} [sings|bakes bread|goes for a"
        " walk].",
        "There was {k} named {n}. {H} liked to [dance|sleep|read|swim].",
        n="NAME",
        x=an(rng.choice(list(THINGS))),
        k=an(rng.choice(HERO_KINDS)),
        he=he,
        h=he.capitalize(),
    ).strip()
    return (
        choose(
            rng,
            "[Change the name to {n}|Tell it again with the name {n}|Write this with the name {n}|Use the name {n}"
            " instead]: {t}",
            n=new,
            t=text.replace("NAME", old),
        ),
        text.replace("NAME", new),
    )


def reading(rng):
    """A few statements, then a question whose answer must be copied from them."""
    people = rng.sample(GIRL_NAMES + BOY_NAMES, 3)
    things = rng.sample(list(THINGS), 3)
    places = rng.sample(
        ("in the garden", "by the river", "on the hill", "in the forest", "at the market", "near the mill"), 3
    )
    shades = rng.sample(("red", "blue", "green", "yellow", "old", "new"), 3)
    count = rng.randint(2, 3)
    at = rng.randrange(count)
    who, what = people[at], f"{shades[at]} {things[at]}"
    roll = rng.random()
    if roll < 0.4:
        told = " ".join(f"{people[i]} has {an(f'{shades[i]} {things[i]}')}." for i in range(count))
        return rng.choice(
            (
                (f"{told} What does {who} have?", f"{who} has {an(what)}."),
                (f"{told} Who has the {things[at]}?", f"{who} has the {things[at]}."),
                (
                    (
                        f"{told} What colour is the {things[at]}?"
                        if shades[at] not in ("old", "new")
                        else f"{told} Is the {things[at]} old or new?"
                    ),
                    f"The {things[at]} is {shades[at]}.",
                ),
            )
        )
    told = " ".join(f"{people[i]} is {places[i]}." for i in range(count))
    return rng.choice(
        (
            (f"{told} Where is {who}?", f"{who} is {places[at]}."),
            (f"{told} Who is {places[at]}?", f"{who} is {places[at]}."),
        )
    )


COUPLETS = (
    ("The {k} looked up at the moon", "and softly hummed a little tune."),
    ("The {k} sat down beneath a tree", "and drank a tiny cup of tea."),
    ("A {k} came walking through the rain", "and waited for the evening train."),
    ("The {k} lay down upon the hay", "and slept until the break of day."),
    ("The {k} ran quickly up the hill", "and found the world was very still."),
    ("A little {k}, as quick as light,", "went out to see the stars at night."),
    ("The {k} had nothing on its head", "and so it wore a slice of bread."),
    ("A {k} once sailed a paper boat", "and wore a very yellow coat."),
    ("The {k} sang songs for everyone", "and danced until the day was done."),
    ("The {k} made friends with wind and weather,", "and off they went, the two together."),
    ("The {k} looked out across the sea", 'and said, "How big the world must be!"'),
    ("The {k} went walking in the snow", "and left some footprints, row by row."),
)
SKY_COUPLETS = (
    ("The rain falls softly on the town,", "it drips and drops and tumbles down."),
    ("The sun comes up, the night is gone,", "the little birds sing on and on."),
    ("The snow is falling, soft and white,", "and makes the darkest corner bright."),
    ("The wind goes running round the hill,", "and not a leaf can now keep still."),
    ("The moon is sailing, round and slow,", "and lights the sleeping fields below."),
    ("The stars are shining, far and small,", "and there is room for one and all."),
    ("The spring has come, the grass is green,", "the finest grass you've ever seen."),
    ("The leaves are falling, red and gold,", "the days are short, the nights are cold."),
)


def poem(rng):
    if rng.random() < 0.65:
        kind = rng.choice(HERO_KINDS + ["girl", "boy", "king", "queen", "sailor"])
        chosen = rng.sample(COUPLETS, rng.randint(2, 3))
        if kind in PEOPLE:
            chosen = [pair for pair in chosen if "its head" not in pair[0]]
        topic = an(kind)
    else:
        chosen, kind = rng.sample(SKY_COUPLETS, 2), ""
        topic = next(
            word
            for word in ("rain", "sun", "snow", "wind", "moon", "stars", "spring", "leaves")
            if word in chosen[0][0]
        )
        topic = {"rain": "rain", "snow": "snow", "spring": "spring", "leaves": "autumn"}.get(topic, "the " + topic)
    lines = [expand(line, {"k": kind}, rng) for pair in chosen for line in pair]
    return (
        choose(
            rng,
            "[Write|Tell me|Make|Can you write] a [short |little |]poem about {t}.",
            "A poem about {t}, please.",
            t=topic,
        ),
        "\n".join(sentence(line) for line in lines),
    )


def riddle(rng):
    question, answer = rng.choice(facts.RIDDLES)
    if rng.random() < 0.4:
        return question, answer
    ask = choose(rng, "[Tell me|Ask me|Give me] a riddle.", "Do you know a riddle?", "A riddle, please.")
    if rng.random() < 0.5:
        return ask, f"{question} The answer is: {answer[0].lower() + answer[1:]}"
    reply = choose(rng, "I do not know.", "What is it?", "Tell me the answer.", "I give up.", "No idea.")
    return (ask, question), (reply, f"The answer is: {answer[0].lower() + answer[1:]}")


def joke(rng):
    question, answer = rng.choice(facts.JOKES)
    return (
        choose(rng, "Tell me a joke.", "Do you know a [joke|funny joke]?", "Make me laugh.", "A joke, please."),
        f"{question} {answer}",
    )


def pseudo_word(rng):
    """A word that nobody knows, or a row of capitals."""
    if rng.random() < 0.4:
        return "".join(rng.choice("ABCDEFGHIJKLMNOPRSTUVWXYZ") for _ in range(rng.randint(2, 4)))
    syllables = (rng.choice("bcdfghjklmnprstvwz") + rng.choice("aeiou") for _ in range(rng.randint(2, 4)))
    return "".join(syllables) + rng.choice(("n", "r", "x", "tion", "ism", "s", ""))


def unknown(rng):
    """Questions beyond the model's small world, and the answer that says so."""
    question = choose(
        rng,
        "[What is|What are|What do you know about|Can you explain|Could you tell me about|Who knows about] {t}?",
        "[Explain|Tell me about|Write an essay about|Describe|Teach me|Explain to me] {t}.",
        "How [do I|do you|can I|does one|should I] {d}?",
        "[Please |]help me [to |]{d}.",
        "Can you {d}?",
        "[Why|How|When] {y}?",
        "[Who|When was it that someone] [invented|discovered|wrote|built|painted|founded] {t}?",
        "What is [a |an |the |]{p}?",
        "[Explain|Define|Describe] {p}.",
        "[What is the capital of|How many people live in|Where is|Who is the president of|What do they eat in|How far"
        " is] {c}?",
        "[Write|Fix|Can you write|Show me] a [program|function|script|loop] [in Python|in C++|that sorts numbers|for"
        " me].",
        "Translate [this|hello|my letter|good morning] into [French|German|Spanish|Japanese].",
        "What [time is it|is the weather like today|day is it today|year is it|is the date]?",
        "What is the square root of {n}?",
        "What is {n} [times|plus|divided by|minus|*|+] {m}?",
        "Who won the [match|election|race|cup] [yesterday|last year|in {n}]?",
        t=rng.choice(facts.UNKNOWN_TOPICS) if rng.random() < 0.8 else pseudo_word(rng),
        d=rng.choice(facts.UNKNOWN_DEEDS),
        y=rng.choice(facts.UNKNOWN_REASONS),
        p=pseudo_word(rng),
        c=rng.choice(facts.COUNTRIES),
        n=str(rng.randint(101, 9999)),
        m=str(rng.randint(11, 999)),
    )
    return question, choose(
        rng,
        "I am [sorry, but|afraid that] I do not know that. I am a very small model, and I mostly tell stories.",
        "That is too [hard|difficult] for me. I am only a small model. But I can tell you a story.",
        "I do not know. I am a small story-telling model. Would you like a story?",
    )


def gibberish(rng):
    words = " ".join(pseudo_word(rng).lower() for _ in range(rng.randint(1, 3)))
    return rng.choice((words, words + "?", "...", "hmm", "test", "what", "ok then", "and")), choose(
        rng, "I am not sure what you mean. [Would you like a story?|Ask me for a story, for example.]"
    )


def small_talk(rng):
    animal, noun = rng.choice(HERO_KINDS), rng.choice(list(THINGS))
    name = new_name(rng, rng.choice("mf"))
    return rng.choice(
        (
            (
                f"I have {an(animal)}.",
                f"{sentence(an(animal))}! How nice. Shall I tell you a story about {an(animal)}?",
            ),
            (f"I like {plural(animal)}.", f"I can tell you a story about {an(animal)}, if you like."),
            (f"I lost my {noun}.", f"I am sorry to hear that. I hope you find your {noun} soon."),
            (f"I bought {an(noun)} today.", f"{sentence(an(noun))}! That sounds nice."),
            (f"My {animal} is called {name}.", f"{name} is a lovely name for {an(animal)}."),
            (f"Do you have {an(noun)}?", f"No, I am only a program, so I do not have {an(noun)}."),
            (
                f"Do you like {plural(animal)}?",
                f"I like to tell stories about them. Shall I tell you one about {an(animal)}?",
            ),
            (
                f"What is {an(animal)}?",
                (
                    f"{sentence(an(animal))} is an animal."
                    if animal not in NOT_ANIMALS
                    else f"{sentence(an(animal))} is someone you meet in stories."
                ),
            ),
        )
    )


SKILLS = (
    (greeting, 5),
    (feeling, 2),
    (identity, 7),
    (thanks, 3),
    (farewell, 2),
    (colour, 4),
    (opposite, 6),
    (sound, 3),
    (animal_fact, 5),
    (ability, 2),
    (compare, 3),
    (arithmetic, 9),
    (word_problem, 3),
    (counting, 4),
    (calendar, 4),
    (word_form, 6),
    (name_some, 4),
    (purpose, 2),
    (is_a, 2),
    (introduce, 3),
    (comfort, 2),
    (repeat, 3),
    (rename, 3),
    (reading, 12),
    (poem, 4),
    (riddle, 3),
    (joke, 2),
    (unknown, 12),
    (gibberish, 2),
    (small_talk, 5),
)
_FUNCTIONS, _WEIGHTS = zip(*SKILLS)


def exchange(rng):
    """One or two turns of a random skill, as a list of (user, assistant)."""
    made = rng.choices(_FUNCTIONS, _WEIGHTS)[0](rng)
    return list(made) if isinstance(made[0], tuple) else [made]
