"""The world the stories happen in: who lives there, what they own, where they go, how they feel.

Tables only, and the small classes that turn a row into words. The plots are in plots.py.
"""

from grammar import SYNONYMS, an

# kind: what it can do that others cannot, and its home.
ANIMALS = {}
for _line in """
fly: robin sparrow crow magpie dove parrot goose bee butterfly ladybird bluebird dragonfly swallow seagull eagle
swim: otter beaver frog duck swan turtle seal penguin toad fish dolphin
dig: mole badger rabbit groundhog
climb: squirrel cat kitten goat monkey lizard raccoon chipmunk koala panda
strong: bear ox donkey horse elephant cow moose camel lion giant bull
small: mouse hedgehog snail beetle ant cricket hamster spider
fast: fox hare deer pony zebra tiger
smell: dog puppy pig wolf
night: owl bat
tall: giraffe
none: hen rooster sheep lamb chick peacock dragon robot unicorn wombat kangaroo walrus yak llama lemur gecko ferret
stork heron pelican buffalo hippo rhino crocodile alligator jaguar leopard ostrich flamingo turkey raven weasel lynx
porcupine skunk sloth armadillo anteater reindeer gorilla crab lobster octopus worm caterpillar firefly
moth fairy elf troll mermaid
snowman scarecrow ghost monster
""".strip().splitlines():
    _ability, _kinds = _line.split(": ") if ":" in _line else ("none", _line)
    ANIMALS.update({kind: _ability for kind in _kinds.split()})

# Creatures that cannot walk about in a wood all day: friends and helpers, never heroes.
NEVER_HEROES = {"fish", "dolphin", "giant"}

HOMES = {
    "den": "fox wolf lion tiger raccoon",
    "burrow": "rabbit badger mole groundhog hare",
    "nest": "robin sparrow crow magpie dove parrot goose duck swan bluebird swallow seagull eagle owl",
    "cave": "bear bat dragon",
    "hole": "mouse",
    "lodge": "beaver",
    "barn": "cow ox donkey horse pony hen rooster sheep lamb chick pig goat bull",
    "tree": "squirrel monkey koala chipmunk panda lizard",
    "pond": "frog toad turtle fish dragonfly",
    "hive": "bee",
    "kennel": "dog puppy",
    "workshop": "robot",
    "basket": "cat kitten",
}
HOME_OF = {kind: home for home, kinds in HOMES.items() for kind in kinds.split()}
HOME_WORDS = {
    "den": "a [snug|warm|quiet] den",
    "burrow": "a [snug|deep|tidy] burrow",
    "nest": "a [soft|round|cosy] nest",
    "cave": "a [big|dry|quiet] cave",
    "hole": "a [tiny|tidy|warm] hole in a wall",
    "lodge": "a lodge made of sticks",
    "barn": "a [big|red|warm] barn",
    "tree": "a [tall|hollow|leafy] tree",
    "pond": "a [small|quiet|cool] pond",
    "hive": "a [busy|golden] hive",
    "kennel": "a [wooden|little] kennel",
    "workshop": "a [busy|dusty] workshop",
    "basket": "a [soft|round] basket by the stove",
    "house": "a [small|little|tidy|white|crooked] [house|cottage]",
    "castle": "a [great|tall|old] castle",
    "": "a [small|snug|quiet|little] house",
}

PEOPLE = {
    "girl": "f",
    "boy": "m",
    "princess": "f",
    "prince": "m",
    "queen": "f",
    "king": "m",
    "knight": "m",
    "baker": "?",
    "farmer": "?",
    "gardener": "?",
    "fisherman": "m",
    "sailor": "?",
    "painter": "?",
    "miller": "?",
    "clockmaker": "?",
    "tailor": "?",
    "shepherd": "?",
    "woodcutter": "m",
    "wizard": "m",
    "witch": "f",
    "teacher": "?",
    "postman": "m",
    "potter": "?",
    "carpenter": "?",
    "cook": "?",
    "doctor": "?",
    "pirate": "?",
    "singer": "?",
    "beekeeper": "?",
}
CASTLE_FOLK = {"princess", "prince", "queen", "king", "knight"}
CHILDREN = ("girl", "boy")

GIRL_NAMES = """Mia Lily Rosie Daisy Ella Anna Nora Ruby Clara Hazel Ivy Poppy Molly Tilly Luna Maya Zoe Ada Bella Cora
Dora Emma Fern Greta Hana Ida June Kira Lena Maud Nell Olive Pearl Rhea Sara Tess Una Vera Willa Yara Amina Freya Heidi
Ingrid Leila Marta Nina Petra Rosa Sofia Thea Wren Zuri Alma Bea Elsie Flora Gwen Juno Mabel""".split()
BOY_NAMES = """Tom Ben Max Leo Sam Finn Jack Oscar Hugo Theo Milo Toby Otto Felix Pip Rufus Bruno Alfie Archie Arlo
Barney Casper Dan Eli Fred Gus Hal Ivan Jasper Kit Luca Monty Ned Oliver Percy Quentin Rory Stanley Tim Umar Victor Will
Yusuf Zack Amir Basil Cedric Diego Emil Fergus George Henry Idris Jonah Karl Logan Mateo Noah Omar Pablo""".split()
_ONSETS = "b br d dr f fl g gr h j k kl l m n p pl qu r s sh sn st t tr v w z zh".split()
_NUCLEI = "a e i o u ee oo ai".split()
_CODAS = {
    "f": ["la", "ra", "na", "ma", "lia", "mi", "ssa", "ya"],
    "m": ["bo", "rin", "ko", "do", "lin", "nik", "mer", "go"],
}

TRAITS = {
    "brave": [
        "{H.he} was not afraid of [thunder|the dark|the tall trees|anything].",
        "When others ran away, {h} stayed to see what was the matter.",
    ],
    "curious": [
        "{H.he} asked questions from breakfast until bedtime.",
        "{H.he} wanted to know [how everything worked|what was behind every hill|why the wind blew].",
    ],
    "kind": [
        "{H.he} always [stopped to help|had a good word for everyone].",
        "If someone was sad, {h} was the first to notice.",
    ],
    "shy": [
        "{H.he} spoke so softly that [few could hear {h.him}|you had to lean close to hear].",
        "{H.he} liked quiet corners and [small|gentle] voices.",
    ],
    "clever": ["{H.he} could solve [any riddle|almost any puzzle].", "{H.he} liked to think before {h.he} spoke."],
    "lazy": ["{H.he} liked [naps|sleeping in the sun] more than work.", '{H.he} often said, "I will do it tomorrow."'],
    "proud": [
        "{H.he} [liked to talk|talked] about how [good|clever|wonderful] {h.he} was.",
        "{H.he} did not like to ask anyone for help.",
    ],
    "patient": [
        "{H.he} could wait a whole afternoon without a sigh.",
        "{H.he} never [hurried|rushed] and never grumbled.",
    ],
    "cheerful": ["{H.he} hummed a tune wherever {h.he} went.", "{H.he} could make [anyone|even a stone] smile."],
    "grumpy": ["{H.he} frowned at the rain and {h.he} frowned at the sun.", "{H.he} did not smile very often."],
    "gentle": ["{H.he} stepped around every [ant|flower] on the path.", "{H.his} voice was as soft as [wool|snow]."],
    "hungry": [
        "{H.he} was always thinking about [lunch|supper|the next meal].",
        "{H.his} stomach rumbled like a drum.",
    ],
    "careful": ["{H.he} looked twice before {h.he} [jumped|took a step].", "{H.he} put everything back in its place."],
    "forgetful": ["{H.he} often forgot where {h.he} had put things.", "{H.he} once forgot {h.his} own birthday."],
    "playful": ["{H.he} turned every [job|walk] into a game.", "{H.he} loved to [run|hide|tumble] in the grass."],
    "honest": ["{H.he} always told the truth, even when it was hard.", "Everyone trusted {h}."],
    "lonely": ["{H.he} wished for someone to [play|talk] with.", "{H.his} days were long and very quiet."],
    "busy": ["{H.he} always had something to do.", "{H.he} [swept|cooked|mended|tidied] from morning until night."],
    "dreamy": ["{H.he} could watch the clouds for hours.", "{H.his} head was full of [far places|songs and stars]."],
    "stubborn": ["When {h.he} made up {h.his} mind, nothing could change it.", "{H.he} never liked to give up."],
    "noisy": [
        "You could hear {h.him} from one end of the valley to the other.",
        "{H.he} [sang|shouted|drummed] all day.",
    ],
    "thoughtful": ["{H.he} remembered what everyone liked.", "{H.he} listened more than {h.he} talked."],
}
SIZES = "little small young tiny".split()

# noun, preposition with the article, two things you would notice there.
PLACES = {}
for _line in """
forest | in the forest | the tall trees whispered in the wind | the light fell green and gold between the trees
meadow | in the meadow | the grass was full of flowers | bees hummed from flower to flower
village | in the village | smoke rose from every chimney | the streets were narrow and crooked
river | by the river | the water sang over the stones | willows leaned over the water
lake | by the lake | the water was as still as glass | reeds grew along the shore
hill | on the hill | you could see for miles around | the wind was always blowing
valley | in the valley | a stream ran through the middle | the fields were green and wide
beach | on the beach | the waves rolled in and out | the sand was warm and white
garden | in the garden | roses climbed up the wall | beans and peas grew in neat rows
farm | on the farm | the hens clucked in the yard | the fields were full of wheat
mountain | on the mountain | the air was cool and clear | the rocks were grey and steep
orchard | in the orchard | apples shone in the leaves | the trees stood in long rows
harbour | by the harbour | ropes creaked and gulls called | the boats rocked up and down
island | on the island | the sea was blue on every side | palm trees waved in the breeze
town | in the town | the market was full of voices | the clock tower rang every hour
mill | near the mill | the great wheel turned and splashed | the air smelled of flour
marsh | in the marsh | mist hung over the reeds | the ground was soft and wet
desert | in the desert | the sand lay in golden waves | the nights were cold and full of stars
jungle | in the jungle | vines hung from every branch | bright birds called from the leaves
park | in the park | there was a round pond in the middle | the paths were lined with benches
castle | near the castle | flags flew from the towers | the walls were high and grey
bridge | near the bridge | carts rolled over the old stones | the water ran fast below
cliff | on the cliff | the sea crashed far below | white birds nested in the rocks
field | in the field | the corn stood tall and yellow | a scarecrow waved its arms
woods | in the woods | the ground was soft with moss | mushrooms grew around the roots
wood | at the edge of the wood | ferns grew in the shade | a narrow path led in between the trees
lighthouse | near the lighthouse | the great lamp turned all night | the waves beat on the rocks
snowfield | in the snowy north | everything was white and still | the snow sparkled like sugar
""".strip().splitlines():
    _noun, _at, *_features = (field.strip() for field in _line.split("|"))
    PLACES[_noun] = (_at, _features)

# What an object is good for, then the objects, then words that describe them.
THINGS = {}
ADJECTIVES = {}
for _line in """
light | lantern lamp candle torch | bright old little brass golden
warm | scarf blanket coat quilt jumper shawl cloak | woollen soft thick warm red blue
music | flute drum fiddle bell whistle harp trumpet horn guitar banjo accordion | old small shiny lovely
carry | basket bucket cart bag wheelbarrow sack box suitcase sledge wagon | strong old big sturdy
reach | ladder rope pole stick hook | long strong wooden old
float | boat raft canoe ship | small wooden blue sturdy painted
fly | kite balloon | red yellow blue big striped bright
see | telescope mirror map compass | old fine small useful
play | ball doll puppet hoop marble top teddy puzzle yo-yo | red blue green little new
shelter | umbrella tent hat bonnet helmet | big green striped yellow old
make | brush needle hammer spade broom kettle pot spoon teapot jug rake saw paintbrush pencil|trusty good old new small
treasure|ring crown coin pearl shell feather necklace button key locket medal gem star|shiny golden silver pretty tiny
read | book letter picture notebook postcard diary | old big small precious beautiful
time | clock watch hourglass | old silver golden little
sit | chair stool cushion pillow swing hammock bed rug | big comfortable little blue
ride | bicycle scooter skateboard train rocket | fast red shiny new blue
home | cup bowl plate vase jar bottle curtain flag | blue white painted pretty little
odd | piano camera radio ribbon sword shield wand potion magnet apron boot shoe sock mitten glove belt purse wallet
odd | comb soap towel sponge tooth acorn pebble stone leaf flower seed egg nut pumpkin cake pie biscuit sandwich cheese
odd | engine wheel nail screw plank brick rose tulip pinecone mushroom anchor net oar sail cage statue painting
odd | violin xylophone tambourine microphone computer phone car truck tractor plane helicopter crayon ruler
odd | stamp ticket calendar newspaper card candlestick carpet mattress ladle fork knife pan oven stove barrel chest
""".strip().splitlines():
    _use, _nouns, _adjectives = (
        field.strip() for field in (_line + " | lovely special strange wonderful new").split("|")[:3]
    )
    for _noun in _nouns.split():
        THINGS[_noun] = _use
        ADJECTIVES[_noun] = _adjectives.split()

BULKY = set("""cart wheelbarrow wagon sledge ladder boat raft canoe ship harp tent chair swing hammock bed bicycle train
rocket clock rug piano car truck tractor plane helicopter oven stove mattress statue""".split())
FOODS = """bread soup honey cheese cake jam pie porridge berries apples pears plums nuts pancakes stew biscuits carrots
cherries muffins noodles rice pudding potatoes grapes buns""".split()
FRUIT = "apple pear plum cherry peach lemon orange fig grape melon banana apricot".split()
VEGETABLES = "carrot turnip potato onion leek bean pea cabbage pumpkin beetroot radish".split()
PLANTS = [
    "sunflower",
    "rose bush",
    "pumpkin",
    "bean plant",
    "tulip",
    "daisy",
    "apple tree",
    "lily",
    "oak tree",
    "cherry tree",
    "strawberry plant",
    "poppy",
    "pear tree",
    "tomato plant",
    "lemon tree",
]
SKILLS = {  # to do, doing, did
    "swim": ("swimming", "swam"),
    "whistle": ("whistling", "whistled"),
    "skate": ("skating", "skated"),
    "dance": ("dancing", "danced"),
    "sing": ("singing", "sang"),
    "draw": ("drawing", "drew"),
    "juggle": ("juggling", "juggled"),
    "read": ("reading", "read"),
    "knit": ("knitting", "knitted"),
    "bake": ("baking", "baked"),
    "row": ("rowing", "rowed"),
    "paint": ("painting", "painted"),
    "play the flute": ("playing the flute", "played the flute"),
    "climb": ("climbing", "climbed"),
    "play the drum": ("playing the drum", "played the drum"),
    "write": ("writing", "wrote"),
    "ride a bicycle": ("riding a bicycle", "rode a bicycle"),
    "tie knots": ("tying knots", "tied knots"),
}
COLOURS = "red blue green yellow orange purple white black brown pink grey golden silver".split()

LESSONS = {
    "sharing": ["sharing makes everything better", "a thing is twice as good when it is shared"],
    "honesty": ["it is always best to tell the truth", "an honest word is worth more than gold"],
    "friendship": ["a good friend is the best treasure", "a stranger may be a friend you have not met yet"],
    "kindness": ["a kind deed always comes back", "a little kindness can change a whole day"],
    "courage": ["being brave means going on even when you are afraid", "courage can be very small and very quiet"],
    "patience": ["good things take time", "those who wait and keep trying will get there"],
    "helping": ["no one has to do everything alone", "it is wise to ask for help", "many small hands can do a big job"],
    "humility": ["it is better to do well than to boast", "everyone can lose, and everyone can learn"],
    "gratitude": ["the best things are often the ones you already have", "it is good to be happy with what you have"],
    "curiosity": ["it is good to ask and to look", "the world is full of wonders for those who look"],
}

SYNONYMS.update(
    {
        "glad": "glad|happy|pleased|delighted|very happy|full of joy",
        "sad": "sad|unhappy|sorry|very sad|miserable",
        "afraid": "afraid|scared|frightened",
        "said": "said|said|said|answered|replied",
        "asked": "asked|asked|wanted to know",
        "cried": "cried|shouted|called|called out",
        "went": "went|walked|set off|hurried|wandered",
        "ran": "ran|hurried|raced|rushed",
        "looked": "looked|searched",
        "fine": "fine|lovely|bright|clear|sunny|beautiful",
        "day": "day|morning|afternoon",
        "morning": "morning|day",
        "suddenly": "Suddenly|All at once|Just then|At that moment",
        "then": "Then|After that|Soon|A little later|After a while",
        "atlast": "At last|Finally|In the end",
        "smiled": "smiled|laughed|beamed|grinned",
        "very": "very|so|really",
        "slowly": "slowly|carefully|gently|quietly",
        "quickly": "quickly|as fast as {h.he} could|at once|without a second thought",
        "thought": "thought|thought and thought|thought for a [while|moment]|sat down and thought",
        "big": "big|large|huge|great|enormous",
        "smallword": "small|little|tiny",
        "good": "good|wonderful|clever|splendid|fine",
        "food": "|".join(FOODS),
    }
)

PRONOUNS = {"m": ("he", "him", "his", "himself"), "f": ("she", "her", "her", "herself")}


class Character:
    """Someone in a story. `mention` is how the text speaks of someone already introduced."""

    def __init__(self, rng, kind, gender, name, trait, size):
        self.kind, self.gender, self.name, self.trait, self.size = kind, gender, name, trait, size
        self.he, self.him, self.his, self.himself = PRONOUNS[gender]
        self.the = "the " + kind
        self.plain = an(kind)
        if trait and size and size not in ("little", "young"):
            self.size = size = ""
        adjectives = [word for word in (trait, size) if word]
        self.a = an(" ".join(adjectives + [kind]))
        called = rng.choice((" named ", " called ")) + name if name else ""
        self.intro = self.a + called
        self.short = self.plain + called
        self.ability = ANIMALS.get(kind, "hands")
        home = "castle" if kind in CASTLE_FOLK else "house" if kind in PEOPLE else HOME_OF.get(kind, "")
        self.home_template = HOME_WORDS[home]
        self.home = home if home not in ("", "hole", "tree", "basket") else "home"
        self.often = 0.78 if name else 0.0
        self.full = f"{name} the {kind}" if name else self.the

    def mention(self, rng):
        if rng.random() < self.often:
            return self.name
        if self.size and rng.random() < 0.15:
            return f"the {self.size} {self.kind}"
        return self.the

    @property
    def call(self):
        """How others address them."""
        return self.name or self.kind.capitalize()


class Thing:
    def __init__(self, rng, noun):
        self.noun, self.use = noun, THINGS[noun]
        self.adjective = rng.choice(ADJECTIVES[noun])
        self.the = "the " + noun
        self.plain = an(noun)
        self.full = f"{self.adjective} {noun}" if rng.random() < 0.75 else noun
        self.a = an(self.full)

    def mention(self, rng):
        return "the " + self.full if rng.random() < 0.15 else self.the


class Place:
    def __init__(self, rng, noun):
        self.noun = noun
        self.at, features = PLACES[noun]
        self.feature = rng.choice(features)
        self.the = "the " + ("snow" if noun == "snowfield" else noun)

    def mention(self, _):
        return self.the


def new_name(rng, gender):
    if rng.random() < 0.12:  # invented names teach the model to repeat a name it has never seen
        return (rng.choice(_ONSETS) + rng.choice(_NUCLEI) + rng.choice(_CODAS[gender])).capitalize()
    return rng.choice(GIRL_NAMES if gender == "f" else BOY_NAMES)


HERO_KINDS = [kind for kind in ANIMALS if kind not in NEVER_HEROES]
ADULTS = [kind for kind in PEOPLE if kind not in CHILDREN]
THE_YOUNG = {"girl", "boy", "lamb", "chick", "puppy", "kitten", "princess", "prince"}
MALE, FEMALE = {"rooster", "bull", "ox", "giant"}, {"hen", "cow"}


def new_character(rng, taken, ability=None, adult=False, hero=False, named=0.75, trait=None):
    """Someone whose kind and name nobody in `taken` has, so that either is enough to tell them apart."""
    kinds = {someone.kind for someone in taken}
    names = {someone.name for someone in taken}
    while True:
        roll = rng.random()
        if ability:
            kind = rng.choice([kind for kind, what in ANIMALS.items() if what == ability])
        elif adult and roll < 0.6:
            kind = rng.choice(ADULTS)
        elif roll < 0.66:
            kind = rng.choice(HERO_KINDS)
        elif roll < 0.88:
            kind = rng.choice(CHILDREN)
        else:
            kind = rng.choice(ADULTS)
        if kind not in kinds and not (hero and kind in NEVER_HEROES) and not (adult and kind in THE_YOUNG):
            break
    gender = PEOPLE.get(kind, "?")
    if gender == "?":
        gender = "m" if kind in MALE else "f" if kind in FEMALE else rng.choice("mf")
    name = None
    if rng.random() < named:
        name = new_name(rng, gender)
        while name in names:
            name = new_name(rng, gender)
    if adult:
        trait, size = rng.choice(("old", "wise old", "kind old", "wise", "friendly")), ""
    else:
        roll = rng.random()
        trait = trait or (rng.choice(list(TRAITS)) if roll < 0.55 else "")
        size = rng.choice(SIZES) if kind not in PEOPLE and kind != "giant" and rng.random() < 0.5 else ""
    if kind in PEOPLE and kind not in CHILDREN and not trait:
        trait = rng.choice(("young", "kind", "busy", "cheerful"))
    return Character(rng, kind, gender, name, trait, size)


ALL_NAMES = set(GIRL_NAMES + BOY_NAMES)
