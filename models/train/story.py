"""A story in the making, and the beats that every plot shares: openings, weather, feelings, endings."""

from grammar import expand
from world import BULKY, LESSONS, PLACES, THINGS, TRAITS, Place, Thing, new_character

THING_NOUNS = list(THINGS)
PLACE_NOUNS = list(PLACES)
THEMES = list(LESSONS)


class Story:
    """Roles (h hero, f friend, o object, p place, ...), paragraphs of sentences, and questions with their answers."""

    def __init__(self, rng):
        self.rng = rng
        self.roles = {}
        self.paragraphs = [[]]
        self.questions = []
        self.cast = []
        self.theme = ""
        self.summary = ""

    def pick(self, *options):
        return options[int(self.rng.random() * len(options))]

    def chance(self, probability):
        return self.rng.random() < probability

    def words(self, *templates):
        return expand(self.pick(*templates), self.roles, self.rng)

    def say(self, *templates):
        """Adds one of the templates to the paragraph; a name that opened the sentence before becomes a pronoun."""
        sentence = self.words(*templates)
        paragraph = self.paragraphs[-1]
        if paragraph:
            for someone in self.cast:
                if (
                    someone.name
                    and sentence.startswith(someone.name + " ")
                    and paragraph[-1].startswith(someone.name + " ")
                ):
                    if self.rng.random() < 0.7 and not self.is_ambiguous(someone, paragraph[-1]):
                        sentence = someone.he.capitalize() + sentence[len(someone.name) :]
                    break
        paragraph.append(sentence)

    def is_ambiguous(self, someone, text):
        """Whether a pronoun after `text` could mean somebody other than `someone`."""
        return any(
            other is not someone
            and other.gender == someone.gender
            and (other.kind in text or other.name and other.name in text)
            for other in self.cast
        )

    def maybe(self, probability, *templates):
        if self.rng.random() < probability:
            self.say(*templates)

    def turn(self):
        """A new paragraph."""
        if self.paragraphs[-1]:
            self.paragraphs.append([])

    def who(self, role, **wants):
        someone = new_character(self.rng, self.cast, **wants)
        self.cast.append(someone)
        self.roles[role] = someone
        return someone

    def thing(self, role="o", uses=None, but=(), bulky=False):
        while True:
            noun = self.pick(*THING_NOUNS)
            if (uses is None or THINGS[noun] in uses) and noun not in but and (bulky or noun not in BULKY):
                break
        self.roles[role] = Thing(self.rng, noun)
        return self.roles[role]

    def place(self, role="p", nouns=None, but=()):
        noun = self.pick(*(nouns or PLACE_NOUNS))
        while noun in but:
            noun = self.pick(*PLACE_NOUNS)
        self.roles[role] = Place(self.rng, noun)
        return self.roles[role]

    def ask(self, question, answer):
        self.questions.append((self.words(question), self.words(answer)))

    def text(self):
        return "\n\n".join(" ".join(sentences) for sentences in self.paragraphs if sentences)


def open_story(s, trait=None, ability=None):
    """Who the story is about and where they live."""
    hero = s.who("h", hero=True, trait=trait, ability=ability)
    s.place("p")
    s.roles["home"] = s.words(hero.home_template)
    s.say(
        "[Once upon a time|Once upon a time|Long ago|Once], [there was|there was|there lived] {h.intro}.",
        "Once upon a time, {h.intro} lived {p.at}.",
        "Once upon a time, {p.at}, there lived {h.intro}.",
        "There was once {h.intro} who lived {p.at}.",
        "{H.intro} lived in {home} {p.at}." if hero.name else "{H.a} lived in {home} {p.at}.",
        "In {home} {p.at} lived {h.intro}.",
        "Far away, {p.at}, there [was|lived] {h.intro}.",
        "This is the story of {h.intro}.",
        "[Not so long ago|Many years ago], {h.intro} lived {p.at}.",
    )
    said = s.paragraphs[-1][-1]
    if s.roles["p"].at not in said:
        s.say(
            "{H.he} lived {p.at}[|, where {p.feature}].",
            "{H.his} home was {home} {p.at}.",
            "{H.he} lived in {home} {p.at}.",
        )
    elif s.chance(0.35):
        s.say("It was a [quiet|lovely|peaceful|pretty] place, and {p.feature}.", "There, {p.feature}.")
    if hero.trait in TRAITS and s.chance(0.75):
        s.say(*TRAITS[hero.trait])
    elif s.chance(0.4):
        s.say(
            "Every <morning>, {h.he} [swept the doorstep and looked at the sky|went for a walk|ate a bowl of porridge"
            "|said good morning to the sun|sang a little song].",
            "{H.he} liked [warm bread|honey|walks in the rain|stories|the colour [blue|green|red|yellow]|singing"
            "|long walks|quiet evenings] best of all.",
            "Everyone {p.at} knew {h.him} well.",
        )
    s.ask(
        "[What is the story about|Who is the story about|Who is it about]?",
        "It is about {h.intro}." if hero.name else "It is about {h.a}.",
    )
    if hero.name:
        s.ask(
            "[What was the {h.kind}'s name|What was the {h.kind} called|What is the name of the {h.kind}]?",
            "[The {h.kind}'s name was {h.name}|The {h.kind} was called {h.name}|{H.his} name was {h.name}].",
        )
    s.ask("Where did {h} live?", "{H} lived {p.at}.")
    return hero


WEATHER = (
    "The sun was shining and the sky was [blue|clear|bright].",
    "A [soft|warm|gentle] wind was blowing.",
    "It was a <fine> <day>[| in spring| in summer| in autumn].",
    "[White|Small|Fluffy] clouds sailed across the sky.",
    "The birds were singing in the trees.",
    "It had rained in the night, and everything smelled fresh.",
    "The air smelled of [flowers|grass|rain|leaves|fresh bread].",
)


def one_day(s, *events):
    """The day on which things begin to happen."""
    s.turn()
    s.say("One [<fine> |]<day>, ", "One <day>, ", "One [spring|summer|autumn] <day>, ", "One [cool|warm] <day>, ")
    opening = s.paragraphs[-1].pop()
    s.paragraphs[-1].append(opening + s.words(*events))
    s.maybe(0.25, *WEATHER)


def meet_friend(s, role="f", ability=None, named=0.75, adult=False):
    """Somebody comes by; the greeting fixes the two names."""
    s.who(role, ability=ability, named=named, adult=adult)
    r, R = role, role.upper()
    s.say(
        f"<suddenly>, {{{r}.intro}} came [by|along|down the path|around the corner].",
        f"On the way, {{h.he}} met {{{r}.intro}}.",
        f"<then>, {{h.he}} met {{{r}.intro}}.",
        f"Nearby lived {{{r}.intro}}[, and {{h}} went to see {{{r}.him}}|].",
        f"{{{R}.intro}} [was passing by|heard {{h.him}} and came to look|was sitting nearby].",
    )


ENDINGS = (
    "That night, {h} fell asleep with a smile.",
    "And they were the best of friends from that day on.",
    "And that is how {h} and {f} became friends.",
    "Then they all went home for supper.",
    "They laughed all the way home.",
    "And the stars came out, one by one, to [look|listen].",
    "From that day on, {h} and {f} did everything together.",
    "After that, they shared [some|a little] <food> and watched the sun go down.",
    "{H} had never been so happy.",
    "And if you pass that way, you may see them still, [laughing|talking|walking] together.",
)
ALONE = (
    "That night, {h} fell asleep with a smile.",
    "{H} had never been so happy.",
    "And the stars came out, one by one, to [look|listen].",
    "{H} went home with a [light|warm|happy] heart.",
    "It was the best day that {h} could remember.",
    "And from that day on, {h} [sang|smiled] every <morning>.",
    "{H} told the story for many years.",
)


def close_story(s, theme, summary, alone=False):
    """An ending, often a lesson; the summary is for the chat."""
    s.theme = theme
    lesson = s.pick(*LESSONS[theme])
    s.roles["lesson"] = lesson
    s.roles["theme"] = theme
    if s.chance(0.7):
        s.say(*(ALONE if alone or "f" not in s.roles else ENDINGS))
    if s.chance(0.6):
        s.turn()
        s.say(
            "{H} [had learned|learned|knew now|never forgot] that {lesson}.",
            "And so {h} learned that {lesson}.",
            "From then on, {h} [knew|remembered] that {lesson}.",
            '"Now I know that {lesson}," said {h}.',
        )
    s.maybe(0.12, "The end.")
    s.ask(
        "What [is the lesson|is the moral|did {h} learn|can we learn from it|is the lesson of the story]?",
        "[The lesson is|The story tells us|{H} learned] that {lesson}.",
    )
    s.summary = s.words(summary)
    s.ask(
        "[What happened|How does it end|What happens in the story|Can you sum it up|Can you make it shorter"
        "|Tell me the story in one sentence]?",
        s.summary,
    )
