"""Plots that turn on what someone does: learning, helping, building, boasting, waiting, making friends."""

from grammar import an
from story import close_story, meet_friend, one_day, open_story
from world import FRUIT, PLANTS, SKILLS, VEGETABLES


def practise(s):
    """It goes wrong, and wrong again, and then it does not."""
    hero = open_story(s)
    skill = s.pick(*(skill for skill in SKILLS if skill != hero.ability))
    doing, did = SKILLS[skill]
    s.roles.update(skill=skill, doing=doing, did=did)
    s.who("f")
    s.say(
        "More than anything, {h.he} wanted to learn to {skill}.",
        "{H.he} had one wish: to {skill} [well|like the others].",
    )
    one_day(s, "{h} [watched|saw] {f.intro}, who was very good at {doing}.", "{h} tried to {skill} for the first time.")
    s.say(
        "But it was harder than it looked.",
        "It went wrong at once.",
        "{H.he} tried once, and {h.he} tried twice, and each time it went wrong.",
    )
    s.say(
        '"I will never learn it," {h.he} [sighed|said].',
        '{H.his} cheeks grew hot. "I cannot do it," {h.he} said.',
        "Some of the others giggled, and {h} wanted to go home.",
    )
    s.turn()
    if "who was very good" not in " ".join(s.paragraphs[-2]):
        s.say("{F.intro} sat down beside {h.him}.")
    s.say(
        '"The first time, I could not do it either," said {f}. "[Try a little every day|Start small]."',
        '"Do you know how I learned it?" asked {f}. "By getting it wrong a hundred times."',
    )
    s.say("So every <morning>, {h} practised {doing}.", "So {h} tried again the next day, and the day after that.")
    s.say(
        "On Monday it went badly. On Tuesday it went a little better. On Friday {h} [laughed|smiled] for the first"
        " time.",
        "Some days it went well, and some days it did not. {H} kept going.",
        "Little by little, it grew easier.",
    )
    s.turn()
    s.say(
        "<atlast>, at the [summer fair|spring party|harvest feast], {h} {did} in front of everyone.",
        "Then one day {h} {did} as if it were the easiest thing in the world.",
    )
    s.say(
        "Everyone clapped, and {f} clapped the loudest.",
        '"You did it!" <cried> {f}.',
        "{F} was almost as proud as {h}.",
    )
    s.ask("What did {h} want to learn?", "{H} wanted to learn to {skill}.")
    s.ask("Who helped {h}?", "{F.short} helped {h}.")
    close_story(s, "patience", "{H} wanted to learn to {skill}, practised every day, and learned it.")


NOISES = (
    ("a loop of [rope|wire] was tapping against the window", "tap, tap, tap", "a bit of rope at the window"),
    ("a branch was knocking on the roof", "knock, knock, knock", "a branch on the roof"),
    ("the gate was swinging in the wind", "creak, creak, creak", "the old gate"),
    ("a tiny kitten was stuck in a bucket", "meow, meow, meow", "a kitten in a bucket"),
    ("a baby owl had fallen out of its nest", "hoo, hoo, hoo", "a baby owl"),
    ("water was dripping into an old pan", "drip, drip, drip", "water dripping into a pan"),
    ("a frog was sitting in the watering can", "croak, croak, croak", "a frog in the watering can"),
)


def noise(s):
    """Something in the dark; looking is better than trembling."""
    open_story(s)
    cause, sound, answer = s.pick(*NOISES)
    s.roles.update(cause=s.words(cause), sound=sound, answer=answer)
    s.turn()
    s.say(
        "One [dark|windy|cold|quiet] night, {h} was lying in bed when {h.he} heard a noise.",
        "One night, a strange noise woke {h}.",
    )
    s.say('"{Sound}," it went.', "{Sound}, it went, again and again.")
    s.say(
        "{H} pulled the blanket over {h.his} head.",
        '{H.his} heart beat fast. "Is it a monster?" {h.he} whispered.',
        "{H} was <afraid> and lay as still as a stone.",
    )
    s.who("f")
    s.say(
        '{H.he} crept out and woke {f.intro}. "Did you hear that?" {h.he} asked.',
        '{H.he} ran next door to {f.intro}. "There is something out there," {h.he} said.',
    )
    s.say(
        '"I did," said {f}, and {f.his} voice shook a little.',
        '"Perhaps it is a [dragon|ghost|giant]," said {f}.',
        '"Let us look together," said {f}.',
    )
    s.turn()
    s.say(
        "They took a [lantern|candle] and tiptoed towards the sound. {Sound}.",
        "Step by step they followed the sound. It grew louder and louder.",
    )
    s.say("{H} looked around the corner. It was no monster at all: {cause}!", "And what did they see? {Cause}!")
    s.say("They looked at each other and burst out laughing.", '"And we were so <afraid> of that!" said {h}.')
    if "kitten" in cause or "owl" in cause:
        s.say(
            "They lifted it out and gave it [warm milk|a soft place to sleep].",
            "Gently, {h} carried it back to its mother.",
        )
    else:
        s.say(
            "{F} made some [hot milk|tea], and then they slept until late in the morning.",
            "They put it right, and the night was quiet again.",
        )
    s.ask("What made the noise?", "It was {answer}.")
    close_story(s, s.pick("courage", "curiosity"), "{H} heard a strange noise at night, but it was only {answer}.")


def seed(s):
    """Nothing happens for a long time, and then it does."""
    open_story(s)
    s.roles["plant"] = s.pick(*PLANTS)
    s.who("f", adult=s.chance(0.5))
    one_day(
        s,
        "{f.intro} gave {h} a [tiny|small|brown] seed.",
        "{h} found a seed [in {h.his} pocket|on the path] and showed it to {f.intro}.",
    )
    s.say(
        '"Plant it and wait," said {f}. "It will be a {plant}."',
        '"What is inside?" asked {h}. "A {plant}," said {f}, "but it is still asleep."',
    )
    s.say("{H} dug a little hole, put in the seed and gave it some water.", "{H} planted it in the sunniest corner.")
    s.turn()
    s.say("The next day {h} looked. There was nothing but earth.", "{H} looked after an hour. Nothing had happened.")
    s.say("{H.he} watered it every <morning> and pulled up the weeds.", "{H.he} sang to it and told it stories.")
    s.say(
        'A week went by. "It is not growing," said {h}. "[Shall I dig it up?|I give up.]" "[Wait|Not yet]," said {f}. '
        '"It is busy under the ground."',
        '"Perhaps it is a stone," said {h}. But {h.he} watered it all the same.',
    )
    s.turn()
    s.say(
        "Then, after a night of [warm|soft] rain, there was a tiny green [leaf|tip].",
        "And one <morning>, a small green shoot peeped out of the earth.",
    )
    s.say(
        "It grew and grew, until it was [as tall as {h}|the finest {plant} {p.at}].",
        "Day after day it grew, and by summer it was a [beautiful|fine|splendid] {plant}.",
    )
    s.say(
        "Everyone came to see it, and {h} gave each of them a seed.",
        '"You see?" said {f}. "You did it by waiting."',
        "{H} sat beside it and was <glad> that {h.he} had not given up.",
    )
    s.ask(
        "What did {h} plant?",
        "{H} planted a seed, and it became {the_plant}.".replace("{the_plant}", an(s.roles["plant"])),
    )
    close_story(s, "patience", "{H} planted a seed, cared for it and waited until it became a {plant}.")


def race(s):
    """The boaster stops to be admired; the steady one does not."""
    open_story(s, trait=s.pick("proud", "lazy", "noisy"), ability=s.pick("fast", "fast", "climb", "strong", None))
    s.who("f", trait=s.pick("patient", "careful", "stubborn", "shy"))
    s.say(
        '"Nobody is as fast as I am," {h.he} [said every day|liked to say].',
        "{H.he} told everyone that {h.he} was the fastest of all.",
    )
    one_day(
        s, '{f.intro} said, "Let us have a race."', "there was a great race {p.at}, and {f.intro} wanted to run too."
    )
    s.say('{H} laughed. "Against you? That will be easy!"', '"You?" said {h}. "You will never win."')
    s.say('"One, two, three, go!" [called|shouted] [the crow|an old owl|the judge], and off they went.')
    s.turn()
    s.say("{H} was soon far ahead. {H.he} looked back and could not even see {f}.", "{H} shot away like an arrow.")
    s.roles["pause"] = s.pick(
        "lie down in the shade", "eat some berries", "wave to everyone", "tell a joke", "take a nap"
    )
    s.say('"I have plenty of time," {h.he} said, and stopped to {pause}.', "So {h.he} stopped to {pause}.")
    s.say(
        "{F} did not stop. {F.he} went on, step by step, breathing evenly.",
        "Behind {h.him} came {f}, not fast, but without a rest.",
    )
    s.say("When {h} looked up, {f} was almost at the finish.", "<suddenly> {h} heard cheering, and jumped up.")
    s.say("{H} ran as never before, but it was too late. {F} had won.", "It was too late. {F} crossed the line first.")
    s.turn()
    s.say(
        '{H} hung {h.his} head. "You ran well," {h.he} said at last. "I am sorry that I laughed."',
        'For a while {h} was angry. Then {h.he} shook hands with {f}. "You earned it," {h.he} said.',
    )
    s.say(
        '"Would you teach me how you do it?" asked {h}. "Just keep going," said {f}.',
        "{F} smiled and shared the prize with {h}: a <big> [cake|pie|cheese].",
    )
    s.ask("Who won the race?", "{F} won the race.")
    s.ask("Why did {h} lose?", "{H} lost because {h.he} stopped to {pause}.")
    close_story(s, "humility", "{H} boasted, stopped to {pause} in the middle of a race, and lost to {f}.")


def newcomer(s):
    """Somebody new next door, and somebody has to knock first."""
    open_story(s)
    s.who("f", trait=s.pick("shy", "lonely", "gentle"))
    s.thing(uses=("play", "fly", "music"))
    one_day(s, "{f.intro} moved in next door.", "a cart full of boxes stopped {p.at}. With it came {f.intro}.")
    s.say(
        "{F} stayed inside and only looked out of the window.",
        "{F.he} did not speak to anyone.",
        "When the others said hello, {f} looked at the ground.",
    )
    s.say(
        '"[Perhaps {f.he} does not like us|How unfriendly {f.he} is]," said the others. But {h} was not so sure.',
        '"{F.he} must be [lonely|homesick]," thought {h}.',
    )
    s.turn()
    s.say(
        "{H} baked [some bread|some buns|a cake|a pie] and left it on the doorstep.",
        "{H} put a bunch of flowers on the doorstep.",
        '{H} painted a card that said "Welcome".',
    )
    s.say(
        "The next day, there was a thank-you note at {h}'s door.",
        'In the evening the door opened, just a little. "Thank you," said a small voice.',
    )
    s.say(
        'So {h} came back with {o.a}. "Would you like to [try it|come out and play]?" {h.he} asked.',
        (
            '{H} saw {o.a} in the window. "I like {o.noun}s too!" {h.he} said.'
            if s.roles["o"].use in ("play", "fly")
            else '{H} brought {o.a}. "Shall we share it?" {h.he} asked.'
        ),
    )
    s.say('{F}\'s eyes grew bright. "Yes, please," {f.he} said.', "{F} [nodded|smiled] for the first time.")
    s.turn()
    s.say(
        "They played all afternoon, and {f} turned out to be very funny.",
        "Soon they were laughing as if they had always known each other.",
    )
    s.say(
        '"I was afraid that nobody would like me," said {f}. "I like you," said {h}.',
        '"I did not know anyone," said {f}. "Now you know me," said {h}.',
    )
    s.ask(
        "Who moved in next door?", "{F.intro} moved in next door." if s.roles["f"].name else "{F.a} moved in next door."
    )
    close_story(s, "friendship", "{F} was new and shy, and {h} became {f.his} friend.")


PROJECTS = (
    ("bridge", "cross the stream", "carry stones", "lay the planks"),
    ("tree house", "watch the stars", "carry boards", "hammer the nails"),
    ("raft", "sail on the lake", "fetch logs", "tie the knots"),
    ("snowman", "greet everyone", "roll the snow", "find a carrot"),
    ("barn", "keep the hay dry", "carry beams", "paint the walls"),
    ("wall", "keep out the wind", "bring stones", "mix the clay"),
    ("sandcastle", "have a king's home", "fetch water", "dig the moat"),
    ("well", "have fresh water", "dig", "pull up the earth"),
    ("windmill", "grind the corn", "sew the sails", "turn the stones"),
    ("playground", "swing and slide", "hang the ropes", "paint the slide"),
)


def build(s):
    """One alone cannot; each does a part."""
    open_story(s)
    what, purpose, job_f, job_g = s.pick(*PROJECTS)
    s.roles.update(what=what, purpose=purpose, job_f=job_f, job_g=job_g)
    s.who("f"), s.who("g")
    one_day(
        s,
        "{h} had an idea. {H.he} would build a {what}, so that everyone could {purpose}.",
        "{h} decided to build a {what}.",
    )
    s.say(
        "{H.he} worked all day, but when evening came there was hardly anything to see.",
        "{H.he} started at once, but the work was too much for one alone.",
    )
    s.maybe(0.5, "In the night the wind blew, and it all fell down.", "{H.his} arms ached, and {h.his} back ached too.")
    s.turn()
    s.say(
        '{F.intro} came by. "Why do you do it all alone?" {f.he} asked.',
        '{F.intro} watched for a while. "May I help?" {f.he} asked.',
    )
    s.say(
        '"I can {job_f}," said {f}. "And I can {job_g}," said {g.intro}, who had come too.',
        '{F} said, "I can {job_f}." Then {g.intro} came and said, "I can {job_g}."',
    )
    s.say(
        "So they set to work. {F} began to {job_f}, {g} began to {job_g}, and {h} told everyone where things belonged.",
        "They worked side by side and sang as they worked.",
    )
    s.turn()
    s.say(
        "After [three|four|five] days, the {what} was [ready|finished].",
        "When the sun went down, the {what} was finished.",
    )
    s.say("Now everyone could {purpose}.", "It was the best {what} that anyone had ever seen.")
    s.say(
        '"We did it!" they <cried>.',
        '"Alone I would never have finished it," said {h}.',
        "They had a feast with <food> and <food>.",
    )
    s.ask("What did they build?", "They built {a_what}.".replace("{a_what}", an(what)))
    s.ask("Who helped {h}?", "{F} and {g} helped {h}.")
    close_story(s, "helping", "{H} could not build a {what} alone, but with {f} and {g} it was soon finished.")


def winter(s):
    """Something warm is given away, and warmth comes back."""
    open_story(s)
    s.thing(uses=("warm",))
    s.say("It was winter, and the snow lay deep.", "That winter was the coldest that anyone could remember.")
    s.say("Luckily, {h} had {o.a}.", "But {h} had {o.a}, so {h.he} did not mind the cold.")
    s.who("f")
    s.turn()
    s.say(
        "One icy <morning>, {h} met {f.intro} in the snow.",
        "One evening, {h} went out to fetch wood, and there in the snow sat {f.intro}.",
    )
    s.say("{F} was shivering. {F.his} nose was blue.", '"I am so cold," said {f}, "and I have nothing warm to wear."')
    s.say(
        "{H} looked at {o}. Then {h.he} put it around {f}.",
        '"Take this," said {h}, and gave {f} {o}.',
        "{H} thought of {h.his} warm stove at home and gave {o} away.",
    )
    s.say(
        '"But now you will be cold," said {f}. "I can run," said {h}. "Running makes you warm."',
        '"Thank you," whispered {f}, and the colour came back to {f.his} face.',
    )
    s.turn()
    s.say("A week later, a storm blew the roof off {h}'s house.", "Some days later, {h} lost the way in a snowstorm.")
    s.say(
        '{H} did not know where to go. Then {h.he} heard a voice. "{H.call}! Come in!" It was {f}.',
        "{H.he} was tired and cold. <suddenly> somebody took {h.his} hand. It was {f}.",
    )
    s.say(
        "{F} had a fire and a pot of hot soup, and there was room for two under {o}.",
        "{F} took {h.him} home, and they sat by the fire, wrapped in {o}.",
    )
    s.ask("What did {h} give away?", "{H} gave away {h.his} {o.noun}.")
    s.ask("Who helped {h} in the end?", "{F} helped {h}.")
    close_story(s, "kindness", "{H} gave {o} to {f}, who was cold, and later {f} took {h} in.")


def lost_home(s):
    """The way home, by asking and remembering."""
    open_story(s)
    s.roles["lure"] = s.pick(
        "a blue butterfly",
        "a rolling leaf",
        "a rainbow",
        "the sound of music",
        "a white feather",
        "a trail of berries",
        "a red balloon",
        "the smell of fresh bread",
    )
    one_day(
        s, "{h} followed {lure} and did not look where {h.he} was going.", "{h} ran after {lure}, further and further."
    )
    s.say(
        "When {h.he} stopped, nothing looked the same. {H.he} was lost.",
        "All at once, {h.he} did not know where {h.he} was.",
    )
    s.say(
        '"Which way is home?" {h.he} said, but only the wind answered.',
        "{H.he} felt very small.",
        "{H.he} wanted to cry, but then {h.he} took a deep breath.",
    )
    s.turn()
    meet_friend(s)
    s.say(
        '"I am lost," said {h}. "[Can you help me|Do you know the way home]?"', '"You look lost," said {f}. {H} nodded.'
    )
    s.say(
        '"Where do you live?" asked {f}. "I live {p.at}," said {h}.',
        '"What can you see from your door?" asked {f}. {H} told {f.him} how {p.feature}.',
    )
    s.say(
        '"Then I know the way," said {f}. "We must [follow the stream|go past the mill|go over the hill]."',
        '"I know that place," said {f}. "Take my hand."',
    )
    s.say(
        "They walked [past a barn and over a bridge|through the trees and across a field|along the stream], and {f}"
        " told stories all the way.",
        "They walked until the first stars came out.",
    )
    s.turn()
    s.say('<suddenly> {h} saw a light. "That is my home!" {h.he} <cried>.', "There, at last, was home.")
    s.say(
        "{H.his} mother ran out and hugged {h.him} tight.",
        "{H.his} father was standing at the door with a lantern.",
        "{H.his} grandmother was so <glad> that she cried.",
    )
    s.say("{F} was invited to stay for supper.", '"Thank you for bringing me home," said {h} to {f}.')
    s.ask("Why did {h} get lost?", "{H} got lost because {h.he} followed {lure}.")
    s.ask("Who helped {h}?", "{F.short} helped {h} to get home.")
    close_story(s, s.pick("helping", "kindness"), "{H} got lost, and {f} helped {h.him} to find the way home.")


def soup(s):
    """Nobody has enough for a meal, together they have a feast."""
    open_story(s)
    s.who("f"), s.who("g")
    a, b, c = s.rng.sample(VEGETABLES, 3)
    s.roles.update(a=a, b=b, c=c)
    one_day(
        s,
        "{h} wanted to make soup, but there was only one {a} in the kitchen.",
        "{h} was hungry, and all {h.he} had was a pot of water and one {a}.",
    )
    s.say('"That will be thin soup," {h.he} sighed.', '"It is not much," said {h}, "but it is a beginning."')
    s.turn()
    s.say(
        '{F.intro} smelled the smoke and came by. "I have a {b}," {f.he} said, "but no pot."',
        "There was a knock at the door. It was {f.intro} with a single {b}.",
    )
    s.say("Plop! The {b} went into the pot.", '"Put it in," said {h}, and the soup began to smell a little better.')
    s.say('Then {g.intro} came. "All I have is a {c}," said {g}.', "Next came {g.intro}, who brought a {c}.")
    s.say("Into the pot it went. They stirred and stirred.", "They chopped it up and stirred it in.")
    s.turn()
    s.say(
        "Soon the soup was thick and hot, and it smelled wonderful.",
        "It bubbled and steamed, and everyone's mouth watered.",
    )
    s.say(
        "They sat around the table and ate until the pot was empty.",
        "There was enough for everyone, and even a little more.",
    )
    s.say(
        '"Who would have thought it?" said {h}. "One {a} was enough for a feast."',
        '"This is the best soup in the world," said {f}, and nobody disagreed.',
    )
    s.ask("What did {f} bring?", "{F} brought a {b}.")
    s.ask("What was in the soup?", "There was a {a}, a {b} and a {c} in the soup.")
    close_story(s, "sharing", "{H}, {f} and {g} each brought a little, and together they made a wonderful soup.")


def moon(s):
    """Wanting what cannot be had, and seeing it another way."""
    open_story(s, trait=s.pick("dreamy", "stubborn", "curious", "playful"))
    s.roles["sky"] = s.pick("the moon", "the moon", "the evening star", "the brightest star")
    s.who("f", adult=True)
    s.turn()
    s.say('One evening, {h} looked up and said, "I want to have {sky}."', "{H} loved {sky} and wanted to hold it.")
    s.say(
        "{H.he} climbed the highest [hill|tree|roof], but {sky} was still far away.",
        "{H.he} jumped and jumped, but {sky} was too high.",
    )
    s.say(
        "{H.he} built a tower of [boxes|chairs|stones], and it fell down.",
        "{H.he} threw a rope, but it only fell back on {h.his} head.",
    )
    s.turn()
    s.say('{F.intro} had seen it all. "Come with me," {f.he} said.', "So {h} went to {f.intro} and asked for help.")
    s.say(
        "{F} led {h.him} to a quiet pond. There, in the water, was {sky}.",
        '{F} took a bowl of water and set it on the grass. "Look," {f.he} said. In the water shone {sky}.',
    )
    s.say(
        '"You do not have to own it," said {f}. "It shines for you every time you look up."',
        '"Some things belong to everyone," said {f}. "That is why they are so high."',
    )
    s.say(
        "{H} looked for a long time. Then {h.he} <smiled>.", "{H} sat down beside {f}, and they looked at it together."
    )
    s.ask("What did {h} want to have?", "{H} wanted to have {sky}.")
    close_story(
        s, s.pick("gratitude", "curiosity"), "{H} wanted to have {sky} and learned that it shines for everyone."
    )


def false_alarm(s):
    """A trick, the same trick again, and then it is true."""
    open_story(s, trait=s.pick("playful", "noisy", "lazy"))
    s.who("f")
    danger = s.pick(
        ("fire", "Fire! Fire!", "a spark really did fall into the straw"),
        ("a flood", "The river is coming!", "it rained for three days, and the river really did rise"),
        ("a wolf", "A wolf! A wolf!", "a hungry wolf really did come out of the trees"),
        ("a storm", "A storm is coming!", "the sky grew black, and a real storm came"),
    )
    s.roles.update(danger=danger[0], shout=danger[1], event=danger[2])
    one_day(s, "{h} was bored and wanted to play a trick.", "{h} had nothing to do.")
    s.say('"{Shout}" {h.he} <cried>, as loudly as {h.he} could.')
    s.say(
        "{F.intro} and all the neighbours came running. But there was no danger, only {h}, laughing.",
        'Everyone came running, and first of all {f.intro}. "It was only a joke," laughed {h}.',
    )
    s.say("The next day {h.he} did it again, and again they all came.", "A day later, {h} played the same trick again.")
    s.say('"That is not funny," said {f}. "[One day we will not come|Now we do not know when to believe you]."')
    s.turn()
    s.say(
        'Then {event}. "{Shout}" <cried> {h}, but nobody came.',
        "But one day {event}. {H} shouted and shouted, and nobody moved.",
    )
    s.say(
        '<atlast> {h} ran to {f}\'s door. "Please," {h.he} said, "this time it is true."',
        "{H} ran from house to house with tears in {h.his} eyes.",
    )
    s.say(
        "{F} looked {h.him} in the eye and saw that it was so. {F.he} called the others, and together they made"
        " everything safe.",
        "Only {f} believed {h.him}. They rang the bell, and just in time everyone was safe.",
    )
    s.say('"I am sorry," said {h}. "I will never do it again." And {h.he} never did.')
    s.ask("What trick did {h} play?", '{H} shouted "{Shout}" when it was not true.')
    close_story(
        s,
        "honesty",
        "{H} cried for help as a joke, and when there really was {danger} nobody believed {h.him} at first.",
    )


def grumpy(s):
    """Three tries to make somebody smile."""
    open_story(s, trait=s.pick("cheerful", "kind", "thoughtful", "playful"))
    s.who("f", trait="grumpy")
    s.say(
        "{P.the} was also the home of {f.intro}, who never smiled."
        if s.roles["f"].name
        else "{P.the} was also the home of {f.a}, who never smiled."
    )
    s.say('"Go away," {f} said to everyone.', "When children laughed, {f} shut the window.")
    one_day(s, "{h} made up {h.his} mind to make {f} smile.", '{h} said, "I will make {f} smile."')
    s.say(
        "First {h.he} told a joke. {F} only [snorted|frowned].",
        'First {h.he} stood on {h.his} head. "Very silly," said {f}.',
    )
    s.say(
        "Then {h.he} sang a song. {F} put a pillow over {f.his} ears.",
        "Then {h.he} danced on the doorstep. {F} closed the curtain.",
    )
    s.turn()
    s.say(
        '{H} did not know what else to do. So {h.he} simply asked, "Why are you never happy?"',
        '<atlast> {h} sat down on the step. "Are you sad?" {h.he} asked.',
    )
    s.say(
        'It was quiet for a long time. "Nobody ever asked me that," said {f}. "I miss my [brother|sister|old friend],'
        ' who lives far away."',
        '"My garden does not grow, my roof leaks, and nobody visits me," said {f}. {H} listened to every word.',
    )
    s.say(
        '"Then I will come every [Sunday|evening|day]," said {h}, "and you can tell me [about it|more]."',
        '"I could [help you|visit you] tomorrow," said {h}.',
    )
    s.say(
        "And there it was: a very small smile.",
        "The corners of {f}'s mouth moved. It was a smile, and it looked good on {f.him}.",
    )
    s.ask("Who was grumpy?", "{F} was grumpy.")
    s.ask("How did {h} make {f} smile?", "{H} asked {f.him} why {f.he} was sad, and listened.")
    close_story(s, "kindness", "{H} made grumpy {f} smile by asking and listening.".replace("grumpy {f}", "{f.the}"))


def band(s):
    """Each sound alone is odd; together it is music."""
    open_story(s)
    s.thing("o", uses=("music",))
    s.thing("a", uses=("music",), but=(s.roles["o"].noun,))
    s.thing("b", uses=("music",), but=(s.roles["o"].noun, s.roles["a"].noun))
    s.who("f"), s.who("g")
    s.say("{H.he} played {o.the} every evening.", "{H.he} had {o.a} and played it from morning to night.")
    one_day(s, "{h} heard that there would be a concert {p.at}.", "there was to be a great feast {p.at}, with music.")
    s.say('"One {o.noun} alone is not enough," said {h}. "I need a band."')
    s.say("{H.he} asked {f.intro}, who played {a.the}, and {g.intro}, who played {b.the}.")
    s.turn()
    s.say(
        "The first time they played, it was terrible. {F} was too fast, {g} was too loud, and {h} could not hear"
        " {h.himself}.",
        "At first each of them wanted to be the loudest. It sounded like a cart full of pans.",
    )
    s.say(
        '"Stop!" said {h}. "We are not listening to each other."',
        '"Perhaps we should listen as well as play," said {g}.',
    )
    s.say(
        "They tried again. This time {h} began softly with {o}, then came {a}, and last of all {b}.",
        "So they listened and played, and played and listened, and slowly it turned into a song.",
    )
    s.turn()
    s.say(
        "On the evening of the feast, the whole [village|valley|town] was there. When the last note faded, it was quite"
        " still. Then everyone clapped.",
        "At the feast they played so well that even the [king|queen|old mayor] danced.",
    )
    s.ask("What did {h} play?", "{H} played {o.the}.")
    s.ask("Who was in the band?", "{H}, {f} and {g} were in the band.")
    close_story(s, s.pick("helping", "friendship"), "{H}, {f} and {g} made a band and learned to listen to each other.")


def too_small(s):
    """The one nobody reckons with is the one who is needed."""
    open_story(s, trait=s.pick("brave", "clever", "careful", "stubborn"), ability="small")
    s.who("f")
    s.say(
        "{H.he} was the smallest of all, and the others often forgot {h.him}.",
        '"You are too small to help," the others always said.',
    )
    one_day(
        s,
        "{f.intro} got caught in a net.",
        "the door of the great barn fell shut, and {f.intro} was locked inside.",
        "{f.intro} lost the key to the house.",
    )
    trouble = s.paragraphs[-1][0]
    s.say(
        "The strong ones pulled, and the tall ones pushed, but nothing helped.",
        "Everyone tried, and no one could do anything.",
    )
    s.say('"May I try?" asked {h}. The others laughed.', '"Let me," said {h}, but nobody listened.')
    s.turn()
    if "net" in trouble:
        s.say(
            "{H} came close and looked at the knots. {H.his} hands were so small that {h.he} could undo them, one after"
            " another.",
            "{H} bit through one string, and then another, until the net fell open.",
        )
        s.roles["deed"] = "opened the net"
    elif "barn" in trouble:
        s.say("{H} found a little gap under the wall, slipped through it and lifted the latch from inside.")
        s.roles["deed"] = "slipped inside and opened the door"
    else:
        s.say("{H} crept under the steps, where nobody else could go. And there, in the dust, lay the key.")
        s.roles["deed"] = "crept under the steps and found the key"
    s.say("{F} was free." if "key" not in trouble else "{F} unlocked the door and danced for joy.")
    s.say(
        '"I will never again say that you are too small," said {f}.',
        "The others were quiet. Then they lifted {h} up high and cheered.",
    )
    s.ask("How did {h} help {f}?", "{H} {deed}.")
    close_story(s, "courage", "Everyone said that {h} was too small, but {h} {deed} and helped {f}.")


def orchard(s):
    """More than one can eat, and what becomes of keeping it all."""
    open_story(s, trait=s.pick("hungry", "stubborn", "proud", "busy"))
    s.roles["fruit"] = s.pick(*FRUIT)
    s.who("f")
    s.say("In front of {h.his} home stood a {fruit} tree.", "{H.he} owned the best {fruit} tree far and wide.")
    one_day(s, "the tree was full of ripe fruit.", "{f.intro} came by and asked for a {fruit}.")
    if "asked for" not in s.paragraphs[-1][0]:
        s.say('{F.intro} came by. "May I have one {fruit}?" {f.he} asked.')
    s.say('"No," said {h}. "They are all mine."', '"I picked them, so I keep them," said {h}, and closed the door.')
    s.say(
        "{H.he} put them all in a [big box|deep cellar] and locked it.",
        "{H.he} carried every basket inside and counted them twice.",
    )
    s.turn()
    s.say(
        "But nobody can eat so much. After a week, half of them were [brown and soft|bad].",
        "{H.he} ate until {h.his} stomach hurt, and still there were hundreds left. Then they began to go bad.",
    )
    s.say("{H} looked at the spoiled fruit and felt <sad>.", '"What a waste," said {h}. "I should have shared them."')
    s.say(
        '{H.he} filled a basket with the good ones and took it to {f}. "I am sorry," {h.he} said.',
        "So {h.he} opened the door and called {f} and all the neighbours.",
    )
    s.say(
        '{F} had an idea. "Let us make [jam|pies|juice]," {f.he} said, and they cooked all night.',
        "They sat under the tree and ate together, and it tasted better than ever.",
    )
    s.ask("What kind of tree did {h} have?", "{H} had a {fruit} tree.")
    close_story(s, "sharing", "{H} wanted to keep all the fruit, but learned that sharing is better.")


PLOTS = (
    practise,
    noise,
    seed,
    race,
    newcomer,
    build,
    winter,
    lost_home,
    soup,
    moon,
    false_alarm,
    grumpy,
    band,
    too_small,
    orchard,
)
