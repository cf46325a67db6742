"""Plots that turn on an object: it is lost, found, broken, shared, given, wished for."""

from story import close_story, meet_friend, one_day, open_story

# Where a thing can end up, why the hero cannot get it, and the ability of the one who can.
SPOTS = {
    "fly": [
        (
            "a cheeky [magpie|crow] snatched {o} and left it [high up in a tall tree|on top of a tower]",
            "It was much too high to reach.",
            "flew up, took hold of {o} and brought it down",
        )
    ],
    "climb": [
        (
            "{h.he} threw {o} into the air, and it got stuck in [an oak|a pine|an old apple] tree",
            "The trunk was too smooth for {h}.",
            "climbed from branch to branch and shook {o} loose",
        )
    ],
    "swim": [
        (
            "{o} fell into the [deep|cold] water with a splash",
            "The water was too deep for {h}.",
            "dived down, down, down, and came up with {o}",
        )
    ],
    "dig": [
        (
            "{o} slid into a hole, and the earth fell in on top of it",
            "However hard {h} pulled, the earth did not move.",
            "dug until the earth flew, and there was {o}",
        )
    ],
    "strong": [
        (
            "a <big> [rock|log] rolled down and trapped {o}",
            "{H} pushed and pushed, but it was far too heavy.",
            "put a shoulder against it and pushed it away",
        ),
        (
            "{o} sank into the thick mud",
            "{H} pulled and pulled, but the mud held on tight.",
            "gave one mighty pull, and {o} came free",
        ),
    ],
    "small": [
        (
            "{o} slipped into a narrow crack between two stones",
            "The crack was much too narrow for {h}.",
            "slipped into the crack and pushed {o} out",
        )
    ],
    "fast": [
        (
            "{o} slipped away and tumbled down the hill, faster and faster",
            "{H} ran after it, but it was too quick.",
            "raced down the hill like the wind and stopped it",
        )
    ],
    "smell": [
        (
            "{o} was lost under a thousand fallen leaves",
            "{H} turned over leaf after leaf and found nothing.",
            "sniffed here and there, and began to scratch, and there was {o}",
        )
    ],
    "night": [
        (
            "{o} fell somewhere in a dark, dark cave",
            "It was so dark that {h} could see nothing at all.",
            "saw well in the dark, and soon came back with {o}",
        )
    ],
}
CANNOT = {  # why a willing helper of the wrong kind cannot help
    "fly": '"I would help if I could," said {g}, "but I cannot fly."',
    "climb": '"I am sorry," said {g}. "I cannot climb trees."',
    "swim": '"I am sorry," said {g}. "I cannot swim."',
    "dig": '"I tried to dig once," said {g}, "but I am no good at it."',
    "strong": "{G} pushed with all {g.his} might, but nothing moved.",
    "small": "{G} tried to squeeze in, but {g.he} was too big.",
    "fast": '"I am too slow," said {g}. "I could never catch it."',
    "smell": "{G} looked too, but {g.he} found only leaves.",
    "night": '"I cannot see in the dark," said {g}.',
}
DEAR = (
    "It had been a present from {h.his} [grandmother|grandfather|mother|father|aunt|uncle].",
    "It was {h.his} favourite thing in the whole world.",
    "{H.he} took it everywhere.",
    "{H.he} had made it {h.himself}.",
    "{H.he} [kept|polished] it with great care.",
)


def retrieve(s):
    """The thing is out of reach; a helper with the right gift gets it back."""
    hero = open_story(s)
    s.thing()
    s.say("{H.he} had {o.a}.", "{H} had {o.a} that {h.he} loved.", "What {h.he} loved most was {h.his} {o.full}.")
    s.maybe(0.6, *DEAR)
    ability = s.pick(*(kind for kind in SPOTS if kind != hero.ability))
    mishap, reason, rescue = s.pick(*SPOTS[ability])
    s.roles.update(mishap=s.words(mishap), rescue="")
    one_day(
        s,
        "{h} was [playing|walking|resting] near {p} when {mishap}.",
        "{h} took {o} for a walk, and {mishap}.",
        "something bad happened: {mishap}.",
    )
    s.say(reason)
    s.say(
        '"Oh no!" <cried> {h}. "[How will I get it back?|What shall I do now?|My {o.noun} is gone!]"',
        "{H} sat down and [cried|sighed|wondered what to do].",
        '{H} was <sad>. "I need help," {h.he} said.',
    )
    if s.chance(0.55):
        s.turn()
        other = s.who("g")
        while other.ability == ability:
            s.cast.pop()
            other = s.who("g")
        s.say("First {h} asked {g.intro}.", "{G.intro} came by, and {h} asked {g.him} for help.")
        s.say(CANNOT[ability])
    s.turn()
    meet_friend(s, ability=ability)
    s.say(
        '"[Why are you so sad|What is the matter|What is wrong], {h.call}?" asked {f}. {H} told {f.him} everything.',
        '"Can you help me?" asked {h}. "My {o.noun} is gone, and I cannot get it back."',
        "{F} saw how <sad> {h} was and wanted to help.",
    )
    s.say(
        '"[Leave it to me|I can do that|Do not worry|I know what to do]," said {f}.',
        '"That is easy for {f.plain}," said {f}.',
    )
    s.roles["rescue"] = s.words(rescue)
    s.say("{F} {rescue}.", "And {f} {rescue}.")
    s.say(
        '"Thank you, {f.call}!" said {h}, [and hugged {f.him}|and danced for joy|with shining eyes].',
        '{H} was <glad>. "Thank you, thank you!" {h.he} <cried>.',
    )
    s.maybe(0.4, '"Everyone is good at something," said {f}.', '"That is what friends are for," said {f}.')
    s.ask("Who helped {h}?", "{F.intro} helped {h}." if s.roles["f"].name else "{F.a} helped {h}.")
    s.ask("What did {h} [lose|want to get back]?", "{H.he} lost {h.his} {o.noun}.")
    close_story(s, "helping", "{H} lost {h.his} {o.noun}, and {f} helped to get it back.")


HIDING = (
    "under the bed",
    "behind a barrel",
    "in the tall grass",
    "under a bush",
    "on top of the cupboard",
    "behind the door",
    "in an old boot",
    "beside the well",
    "at the bottom of a basket",
    "inside a hollow log",
)


def search(s):
    """Lost and looked for; the last clue leads to it."""
    open_story(s)
    s.thing()
    s.roles["spot"] = s.pick(*HIDING)
    s.say(
        "{H.he} had {o.a}, and {h.he} used it every day.", "{H.his} greatest treasure was {o.a}.", "{H.he} owned {o.a}."
    )
    s.maybe(0.5, *DEAR)
    one_day(s, "{o} was gone.", "{h} could not find {h.his} {o.noun}.", "{h} woke up, and {o} was not there.")
    s.say(
        "{H.he} looked [under the table|in every corner|in the cupboard], but it was not there.",
        "{H.he} <looked> high and low. There was no {o.noun}.",
        '"Where can it be?" {h.he} wondered.',
    )
    s.maybe(
        0.4,
        "{H.he} looked [behind the curtains|in the garden|beside the stove] too, but found only "
        "[a button|dust|an old sock|a spoon].",
    )
    s.turn()
    s.who("g")
    s.say(
        '{H} asked {g.intro}, "Have you seen my {o.noun}?"',
        '{H} <ran> to {g.intro}. "Have you seen my {o.noun}?" {h.he} asked.',
    )
    s.say(
        '"No," said {g}, "but [ask|you could ask] someone who [gets up early|sees everything|was out yesterday]."',
        '{G} shook {g.his} head. "I have not, but I will help you look."',
        '"Not today," said {g}. "[Where did you have it last?|Try to remember.]"',
        '"I have not seen it," said {g}. "I am sorry."',
    )
    s.who("f")
    s.say("<then> {h} met {f.intro} and asked again.", "Next, {h.he} asked {f.intro}.")
    s.say(
        '"I saw something [shiny|strange|odd] {spot}," said {f}. "[Come with me|Let us look|Follow me]."',
        '{F} thought for a moment. "Did you look {spot}?" {f.he} asked.',
        '"Yesterday you were [resting|playing] right here," said {f}. "Let us look {spot}."',
    )
    s.turn()
    s.say(
        "They looked {spot}, and there was {o}!",
        "And there it was, {spot}: {o.the}!",
        "Together they went to look. {Spot} lay {o}.",
    )
    s.say(
        '"[Hooray|I found it|Here it is]!" <cried> {h}.',
        "{H} was so <glad> that {h.he} danced.",
        '{H} [held it tight|hugged it]. "Thank you for helping me," {h.he} said.',
    )
    s.ask("Where was {o.the}?", "[It was|{O.the} was] {spot}.")
    s.ask("What did {h} lose?", "{H} lost {h.his} {o.noun}.")
    close_story(s, s.pick("patience", "helping"), "{H} lost {h.his} {o.noun} and found it {spot} with the help of {f}.")


def find_owner(s):
    """Found, wanted, and given back."""
    open_story(s)
    s.thing()
    one_day(
        s,
        "{h} found {o.a} {p.at}.",
        "{h} saw something in the grass. It was {o.a}.",
        "{h} almost stepped on something. It was {o.a}.",
    )
    s.say(
        "It was the most beautiful {o.noun} that {h.he} had ever seen.",
        '"How lovely!" {h.he} said. "I wish it were mine."',
        "{H} looked around, but nobody was there.",
    )
    s.say(
        "{H.he} wanted to keep it. But [someone must be missing it|it belonged to somebody else], {h.he} thought.",
        '"Nobody saw me," {h.he} thought. "[Shall I keep it?|I could keep it.]" But {h.his} heart felt heavy.',
        '"Finding is not the same as owning," {h.he} said to {h.himself}.',
    )
    s.turn()
    s.say(
        'So {h} went from door to door and asked, "Is this your {o.noun}?"',
        "So {h} took it along and asked everyone {h.he} met.",
    )
    s.who("g")
    s.say('"It is not mine," said {g.intro}. "But it is good of you to ask."', "{G.intro} only shook {g.his} head.")
    s.who("f")
    s.say(
        "<then> {h.he} heard someone crying. It was {f.intro}.",
        "At the [last house|end of the path] sat {f.intro}, looking very sad.",
    )
    s.say(
        '"I have lost my {o.noun}," said {f}. "I have looked for it [all day|since yesterday]."',
        '"My {o.noun} is gone," {f.he} said. "[My mother|My father|My grandmother] gave it to me."',
    )
    s.say(
        '"Here it is," said {h}, and gave it back.',
        '{H} held out {o}. "Is this it?" {h.he} asked.',
        "For a moment {h} said nothing. Then {h.he} gave {o} to {f}.",
    )
    s.say(
        '{F}\'s eyes lit up. "Thank you! You could have kept it," {f.he} said.',
        '{F} was <glad>. "How can I thank you?" {f.he} asked.',
    )
    s.say(
        "{F} [gave {h} some <food>|invited {h} to supper|asked {h} to come and play], and they [talked|laughed] until"
        " evening.",
        '"Come and use it whenever you like," said {f}.',
    )
    s.ask("What did {h} find?", "{H} found {o.a}.")
    s.ask("Who owned {o.the}?", "It belonged to {f.short}.")
    close_story(s, "honesty", "{H} found {o.a} and gave it back to {f}, who had lost it.")


def share(s):
    """Two want the same thing; pulling gets them nothing."""
    open_story(s)
    s.who("f")
    s.say("{H.his} best friend was {f.intro}.", "{H.he} had a friend, {f.intro}.", "Next door lived {f.intro}.")
    s.thing(uses=("play", "fly", "ride", "music", "float", "sit", "read", "shelter"), bulky=True)
    one_day(
        s,
        "they found {o.a}.",
        "{h} got {o.a} [for {h.his} birthday|from {h.his} uncle], and {f} wanted it too.",
        "the two friends saw {o.a} lying {p.at}.",
    )
    s.say(
        '"It is mine!" said {h}. "No, it is mine!" said {f}.',
        '"Let me have it," said {f}. "No, I want it," said {h}.',
        "Both of them wanted it, and neither would wait.",
    )
    s.say(
        "{H} pulled, and {f} pulled back.",
        "They pulled this way and that way.",
        "They argued all <day>, and nobody had any fun.",
    )
    s.maybe(
        0.6,
        "<suddenly> {o} slipped out of their hands and fell into a [puddle|ditch|bush].",
        "In the end, both of them fell over backwards into the mud.",
        "Then they sat back to back and did not say a word.",
    )
    s.turn()
    if s.chance(0.6):
        s.who("g", adult=True)
        s.say(
            '{G.intro} had watched them. "What good is {o.plain} if it only makes you [angry|sad]?" {g.he} asked.',
            '{G.intro} came by. "Why do you not take turns?" {g.he} said.',
            '{G.intro} came by. "There is a way for both of you," {g.he} said.',
        )
    s.say(
        '{H} looked at {f}, and {f} looked at {h}. "I am sorry," [they both said|said {h}].',
        'It was very quiet. Then {h} said, "It is no fun without you."',
        '{F} was the first to speak. "You can have it first," {f.he} said.',
    )
    s.say(
        "So they took turns. First it was {h}'s turn, and then it was {f}'s.",
        '"[You take it in the morning, and I will take it in the afternoon|Let us use it together]," said {h}.',
        "They agreed to share {o}, one day each.",
    )
    s.say("It was much more fun [together|than before].", "They [played|laughed] until the sun went down.")
    s.ask("What did they [both want|argue about|quarrel about]?", "They both wanted {o.the}.")
    s.ask("Who was {h}'s friend?", "{H}'s friend was {f.short}.")
    close_story(s, "sharing", "{H} and {f} quarrelled over {o.a}, and then they learned to share it.")


def mend(s):
    """Broken by accident, hidden, confessed, mended together."""
    open_story(s)
    s.who("f", adult=s.chance(0.5))
    s.thing(uses=("music", "home", "time", "play", "see", "make", "carry", "light", "treasure"), bulky=True)
    s.say("{H.his} neighbour was {f.intro}, who had {o.a}.", "Near by lived {f.intro}, who owned {o.a}.")
    one_day(
        s,
        "{h} was [playing|dancing|jumping] about when {h.he} [bumped into|knocked over] {o}.",
        "{h} wanted to look at {o}, and it slipped to the floor.",
        "{h} borrowed {o} without asking.",
    )
    s.say(
        "Crack! It was broken.",
        "There was a [crash|loud crack], and {o} lay in two pieces.",
        "It broke with a sad little sound.",
    )
    s.say(
        "{H} was <afraid>. {H.he} hid the pieces under [a bush|a rug|some leaves|the bed] and ran home.",
        '"If I say nothing, nobody will know," thought {h}.',
        "{H} put the pieces in a sack and told nobody.",
    )
    s.turn()
    s.say(
        "But {h.he} could not [eat|sleep|play]. {H.his} stomach felt like a stone.",
        "That night {h.he} lay awake and listened to the wind.",
        "All day {h.he} thought about it, and nothing was fun.",
    )
    s.say(
        'In the morning, {h.he} went to {f}. "I broke your {o.noun}," {h.he} said. "I am sorry."',
        "<atlast>, {h.he} knocked at {f}'s door and told the truth.",
    )
    s.say(
        '{F} was quiet for a moment. "Thank you for telling me," {f.he} said.',
        '{F} did not shout. "It was hard to tell me that, and you did it," {f.he} said.',
        '{F} was sad about {o}, but {f.he} was not angry. "It was an accident," {f.he} said.',
    )
    s.say(
        '"Let us mend it together," said {h}. They used glue and string, and [soon it was whole|they worked all'
        " afternoon].",
        "Together they [glued|mended|fixed] it, piece by piece.",
        "So they sat down side by side and mended it.",
    )
    s.say(
        "It was not quite like new, but {f} liked it even better.",
        "In the evening, {o} was as good as new.",
        "You could still see the crack, and it made them both smile.",
    )
    s.ask("What did {h} break?", "{H} broke {f}'s {o.noun}.")
    s.ask("Was {f} angry?", "No, {f} was not angry, because {h} told the truth.")
    close_story(s, "honesty", "{H} broke {f}'s {o.noun}, told the truth, and they mended it together.")


RESCUES = {  # use: the trouble the friend is in, how the thing helps
    "light": (
        "it grew dark, and {f} had not come home",
        "{H} lit {o} and went out into the dark. {F} saw the light far away and followed it all the way back.",
    ),
    "warm": (
        "{f} got caught in the snow and could not stop shivering",
        "{H} wrapped {f} in {o}, and soon {f.he} was warm again.",
    ),
    "music": (
        "{f} got lost in a thick fog",
        "{H} took {o} and played as loudly as {h.he} could. {F} heard it and walked towards the sound.",
    ),
    "reach": (
        "{f} fell into a deep pit and could not get out",
        "{H} let down {o}. {F} held on tight, and {h} pulled {f.him} up.",
    ),
    "float": (
        "the river rose, and {f} was left on a tiny island",
        "{H} jumped into {o} and crossed the wild water. {F} climbed in, and they came safely back.",
    ),
    "shelter": (
        "a storm broke, and {f} was out in the rain",
        "{H} <ran> to {f} with {o}, and they sat dry and snug under it until the storm was over.",
    ),
    "see": (
        "{f} went too far and lost the way",
        "{H} took {o}, climbed a hill and looked around until {h.he} knew where to go. Soon {h.he} found {f}.",
    ),
    "carry": ("{f} hurt a foot and could not walk home", "{H} fetched {o}, and {f} sat in it all the way home."),
    "fly": (
        "{f} was lost in a field of tall corn",
        "{H} sent {o} high into the air. {F} saw it above the corn and walked straight to it.",
    ),
    "ride": (
        "{f} fell ill, and the doctor lived far away",
        "{H} took {o} and was at the doctor's door in no time. By evening {f} felt better.",
    ),
    "make": (
        "the roof of {f}'s house fell in",
        "{H} came with {o} and worked all day. In the evening the house was as good as new.",
    ),
}


def rescue(s):
    """The hero's everyday thing is just what a friend in trouble needs."""
    open_story(s)
    s.thing(
        uses=tuple(RESCUES),
        bulky=True,
        but=(
            "suitcase",
            "box",
            "bag",
            "bucket",
            "basket",
            "sack",
            "hat",
            "bonnet",
            "helmet",
            "mirror",
            "pencil",
            "spoon",
            "teapot",
            "jug",
            "needle",
            "pot",
            "kettle",
            "balloon",
            "rocket",
            "hook",
            "stick",
        ),
    )
    trouble, rescue_ = RESCUES[s.roles["o"].use]
    s.say(
        "{H.he} had {o.a}.",
        "{H.he} had {o.a}, and {h.he} took it everywhere.",
        (
            "On a hook by the door hung {o.a}."
            if s.roles["o"].use in ("light", "warm", "shelter", "music")
            else "Of all {h.his} things, {h.he} liked {h.his} {o.noun} best."
        ),
    )
    s.maybe(0.5, 'The others laughed at it. "What do you want with that old {o.noun}?" they asked.', *DEAR)
    s.who("f")
    s.say("{H.his} friend was {f.intro}.", "{H.he} had a good friend, {f.intro}.")
    s.roles["trouble"] = s.words(trouble)
    if s.roles["o"].use == "light":
        s.turn()
        s.say("One [cold|windy|rainy|quiet] evening, {trouble}.", "One evening, {trouble}. Nobody knew what to do.")
    else:
        one_day(s, "{trouble}.", "{trouble}. Nobody knew what to do.")
    s.say(
        '"Help!" <cried> {f}, but the others were too <afraid> to go.',
        '"[Who will help?|What shall we do now?]" everyone asked.',
        "{H} heard about it and jumped up.",
    )
    s.say(
        "{H} was <afraid> too, but {h.he} [took a deep breath|did not wait].",
        '"I will go," said {h}. "I have my {o.noun}."',
        "Then {h} remembered {o}.",
    )
    s.turn()
    s.say(rescue_)
    s.say(
        '"You saved me!" said {f}.',
        '"Thank you, {h.call}," said {f}. "I will never forget this."',
        "{F} hugged {h} for a long, long time.",
    )
    s.maybe(
        0.5,
        "Nobody laughed at {o} again.",
        "After that, everyone wanted {o.plain} like that.",
        "Everyone [clapped|cheered] when they came home.",
    )
    s.ask("What did {h} use to help {f}?", "{H} used {h.his} {o.noun}.")
    s.ask("Who was in trouble?", "{F} was in trouble, and {h} helped {f.him}.")
    close_story(s, s.pick("courage", "kindness"), "{F} was in trouble, and {h} saved {f.him} with {h.his} {o.noun}.")


def gift(s):
    """A present that costs the giver something."""
    open_story(s)
    s.who("f")
    s.thing()
    s.say(
        "Tomorrow was the birthday of {h.his} friend {f.full}."
        if s.roles["f"].name
        else "{H.his} friend {f.the} would soon have a birthday."
    )
    one_day(
        s,
        "{h} went to the market to look for a present.",
        "{h} counted {h.his} coins. There were only [two|three|four].",
        "{h} thought hard about a present.",
    )
    s.say("In a shop window {h.he} saw {o.a}. It was just right for {f}.", "{H} knew what {f} wished for: {o.a}.")
    s.who("g", adult=True)
    s.say(
        '"How much is {o}?" {h} asked {g.intro}. "[Ten|Twenty|Nine] coins," said {g}.',
        "But it cost [ten|twenty|nine] coins, and {h} did not have so many. The shop belonged to {g.intro}.",
    )
    s.turn()
    s.say(
        '"I could work for it," said {h}. "[I can sweep|I can carry boxes|I can wash the windows]."',
        '{H} thought. "May I help in your shop?" {h.he} asked.',
    )
    s.say(
        "So all day long {h} [swept the floor|carried boxes|washed the windows|sorted apples], and {g} was <glad>.",
        "{H} worked until {h.he} was tired, and never once complained.",
    )
    s.say(
        'In the evening {g} said, "You have earned it," and gave {h} {o}.',
        "When the sun went down, {g} wrapped {o} in [blue|red|green|yellow] paper.",
    )
    s.turn()
    s.say(
        "The next day {h} gave {f} the present. {F} opened it and gasped.",
        "At the party, {f} opened the paper. There was {o}!",
    )
    s.say(
        '"It is just what I wanted!" said {f}. "[How did you know?|Thank you, {h.call}!]"',
        "{F} did not know what to say. {F.he} just hugged {h}.",
    )
    s.maybe(0.5, "They ate <food> and danced until the candles burned down.", "There was cake for everyone.")
    s.ask("What present did {h} give to {f}?", "{H} gave {f} {o.a}.")
    s.ask("How did {h} pay for it?", "{H} worked all day in the shop.")
    close_story(s, "kindness", "{H} worked all day so that {h.he} could give {f} {o.a}.")


def wish(s):
    """A granted wish is not what it seemed."""
    open_story(s)
    s.thing(bulky=True)
    s.say(
        "{H.he} was never content and always wanted something more.",
        "All {h.he} had was {o.a}, and {h.he} did not think much of it.",
    )
    one_day(
        s,
        "{h} helped a [golden fish|tiny fairy|white bird|silver moth] that was caught in a [net|bush|web].",
        "a [tiny fairy|golden fish|white bird] spoke to {h}.",
    )
    s.say('"I will give you one wish," it said.', '"You may make one wish," it said. "Think well."')
    wants = s.pick(
        (
            "a palace with a hundred rooms",
            "it was so big and so empty that {h.he} heard only {h.his} own steps",
            "palace",
        ),
        ("a mountain of gold", "{h.he} could not eat it, and it was cold to sleep on", "gold"),
        (
            "all the cake in the world",
            "after the third day {h.he} felt sick and never wanted to see cake again",
            "cake",
        ),
        ("to be as big as a hill", "{h.he} could not fit into {h.his} home, and everyone ran away", "size"),
        ("summer all year long", "the flowers dried up, and the stream ran dry", "summer"),
        ("to fly like a bird", "it was cold and lonely up in the clouds", "flying"),
    )
    s.roles.update(want=wants[0], trouble=s.words(wants[1]))
    s.say('"I wish for {want}!" <cried> {h}.' if not wants[0].startswith("to ") else '"I wish {want}!" <cried> {h}.')
    s.say(
        "There was a flash of light, and the wish came true.",
        "At once it came true.",
        "It had hardly been said when it came true.",
    )
    s.turn()
    s.say("At first {h} was <glad>. But {trouble}.", "For one day it was wonderful. Then {trouble}.")
    s.say("{H} missed {h.his} [old life|friends|quiet evenings].", '"What have I done?" said {h}.')
    s.say(
        '{H.he} called for help, and it came back. "[Please take it away|Please make everything as it was]," said {h}.',
        "{H.he} went back and asked to undo the wish.",
    )
    s.say('"Are you sure?" it asked. "Very sure," said {h}.', "It smiled, as if it had known all along.")
    s.say(
        "And so {h} was back {p.at}, with nothing but {o.a}. It had never looked so lovely.",
        "Everything was as before, and {h} held {h.his} {o.noun} and laughed.",
    )
    s.ask(
        "What did {h} wish for?", "{H} wished for {want}." if not wants[0].startswith("to ") else "{H} wished {want}."
    )
    close_story(
        s, "gratitude", "{H} made a wish, found that it brought no joy, and was happy with what {h.he} had.", alone=True
    )


def trade(s):
    """A chain of swaps, each of which helps somebody."""
    open_story(s)
    things = [s.thing(role) for role in ("o", "a", "b")]
    while len({thing.noun for thing in things}) < 3:
        things = [s.thing(role) for role in ("o", "a", "b")]
    s.who("f"), s.who("g")
    s.say("All {h.he} had in the world was {o.a}.", "{H.he} had {o.a} that {h.he} did not need any more.")
    one_day(s, "{h} took {o} and set out to see the world.", "{h} went to market with {o}.")
    s.say(
        "On the road {h.he} met {f.intro}, who needed {o.plain}.",
        'Soon {h.he} met {f.intro}. "What a fine {o.noun}!" said {f}.',
    )
    s.say(
        '"I will give you {a.a} for it," said {f}. {H} agreed.',
        '"Will you trade it for {a.a}?" asked {f}. "Gladly," said {h}.',
    )
    s.turn()
    s.say(
        'A little further on sat {g.intro}, who [was crying|looked worried]. "If only I had {a.plain}!" said {g}.',
        'Next {h.he} met {g.intro}. "{A.plain} is just what I am looking for," said {g}.',
    )
    s.say(
        '"Take this one," said {h}. {G} was <glad> and gave {h.him} {b.a}.',
        "{H} gave {a} to {g}, and {g} gave {h.him} {b.a} in return.",
    )
    s.turn()
    s.say(
        "When {h} came home, {h.he} put {b} by the door. It was exactly what {h.he} had always wanted.",
        "In the evening {h} sat down with {b} and smiled.",
    )
    s.say("Now three were happy: {f} had {o.plain}, {g} had {a.plain}, and {h} had {b.plain}.")
    s.ask("What did {h} have at the end?", "At the end {h} had {b.a}.")
    s.ask("What did {f} get?", "{F} got {o.the}.")
    close_story(
        s, "kindness", "{H} traded {o.plain} for {a.plain} and {a.plain} for {b.plain}, and everyone was happy."
    )


def treasure(s):
    """A map, a journey with an obstacle, and a chest."""
    open_story(s)
    s.who("f")
    s.thing()
    s.place("q", but=(s.roles["p"].noun,))
    one_day(s, "{h} found an old map [in a bottle|under the floor|inside a book].", "an old map blew in at the window.")
    s.say("There was a cross on it, {q.at}.", "It showed a path, three trees and a big red cross {q.at}.")
    s.say("{H} <ran> to {f.intro} and showed {f.him} the map.", "{H} asked {h.his} friend, {f.intro}, to come along.")
    s.say(
        '"A treasure!" said {f}. "Let us go at once."',
        '"We shall need [bread and water|warm coats|good shoes]," said {f}.',
    )
    s.turn()
    s.say(
        "They walked [all day|for two days] until they came to {q}, where {q.feature}.",
        "The way was long, but they sang as they went. <atlast> they came to {q}.",
    )
    s.say(
        "A stream blocked the path, so they laid a log across it.",
        "It grew dark, and {f} held {h}'s hand.",
        "It began to rain, and they waited under a [rock|big tree] until it stopped.",
        "They lost the path twice and found it again.",
    )
    s.say(
        "Under the [oldest tree|biggest stone|third tree] they began to dig. Deep down there was a chest.",
        "They dug and dug until they hit something hard. It was a wooden chest.",
    )
    s.turn()
    s.say("They lifted the lid. There was no gold inside, only {o.a} and a letter.", "Inside lay {o.a} and a letter.")
    s.say(
        '"For the friends who came so far together," it said.',
        'In the letter was written: "The best treasure is the one beside you."',
    )
    s.say(
        "{H} looked at {f} and <smiled>.",
        "{H} and {f} laughed until their sides hurt.",
        "They took turns carrying {o} home.",
    )
    s.ask("What was in the chest?", "There was {o.a} and a letter in the chest.")
    s.ask("Where was the treasure?", "The treasure was {q.at}.")
    close_story(s, "friendship", "{H} and {f} followed an old map and found {o.a} and a letter about friendship.")


PLOTS = (retrieve, search, find_owner, share, mend, rescue, gift, wish, trade, treasure)
