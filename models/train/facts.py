"""What the little model knows about its world: pairs and lists that skills.py asks about."""


def pairs(text):
    return [tuple(pair.split("-")) for pair in text.split()]


OPPOSITES = pairs(
    """hot-cold big-small tall-short long-short fast-slow old-young new-old happy-sad good-bad day-night up-down
in-out open-closed full-empty hard-soft heavy-light dark-light early-late easy-difficult wet-dry
clean-dirty rich-poor strong-weak loud-quiet near-far high-low left-right front-back top-bottom
inside-outside before-after first-last always-never love-hate begin-end start-stop push-pull give-take
come-go buy-sell win-lose find-lose remember-forget laugh-cry ask-answer wide-narrow thick-thin
deep-shallow sharp-blunt smooth-rough sweet-sour brave-cowardly kind-cruel polite-rude clever-foolish
lazy-busy awake-asleep true-false right-wrong same-different summer-winter north-south east-west
black-white yes-no more-less many-few everything-nothing everyone-nobody above-below over-under
safe-dangerous cheap-expensive beautiful-ugly calm-stormy friend-enemy warm-cool bright-dull
straight-crooked generous-greedy patient-impatient tidy-messy possible-impossible arrive-leave
catch-throw float-sink whisper-shout build-destroy save-spend lead-follow tight-loose noisy-quiet
male-female king-queen boy-girl"""
)

COLOUR_OF = pairs("""snow-white grass-green blood-red coal-black milk-white gold-yellow chocolate-brown honey-golden
sand-yellow ink-black salt-white sugar-white butter-yellow mud-brown ice-white""")
COLOUR_OF_A = pairs(
    """lemon-yellow banana-yellow tomato-red carrot-orange cherry-red strawberry-red crow-black swan-white
frog-green bear-brown fox-red pumpkin-orange flamingo-pink leaf-green cucumber-green robin-brown+and+red
sunflower-yellow mouse-grey elephant-grey pig-pink plum-purple violet-purple cloud-white
penguin-black+and+white zebra-black+and+white ladybird-red+with+black+spots bee-yellow+and+black"""
)
COLOUR_OF_THE = pairs("sky-blue sun-yellow sea-blue moon-silver night-black")

SOUNDS = pairs("""dog-woof cat-meow cow-moo sheep-baa duck-quack pig-oink hen-cluck rooster-cock-a-doodle-doo frog-croak
owl-hoo bee-buzz horse-neigh mouse-squeak crow-caw lion-roar wolf-howl snake-hiss goose-honk lamb-baa
donkey-hee-haw bird-tweet bear-growl""".replace("cock-a-doodle-doo", "cockadoodledoo").replace("hee-haw", "heehaw"))

LIVES = dict(pairs("""fox-in+a+den rabbit-in+a+burrow bee-in+a+hive robin-in+a+nest dog-in+a+kennel bear-in+a+cave
spider-in+a+web beaver-in+a+lodge cow-in+a+barn horse-in+a+stable fish-in+the+water whale-in+the+sea
frog-in+a+pond camel-in+the+desert monkey-in+the+jungle penguin-in+the+cold+south owl-in+a+hollow+tree
mole-under+the+ground squirrel-in+a+tree duck-by+a+pond lion-on+the+plains eagle-high+on+a+cliff
ant-in+an+anthill snail-in+its+shell badger-in+a+sett hen-in+a+henhouse pig-in+a+sty goat-on+the+mountain
seal-by+the+sea bat-in+a+cave"""))
EATS = dict(
    pairs("""rabbit-carrots+and+grass mouse-cheese+and+seeds bear-berries,+honey+and+fish horse-hay+and+oats cow-grass
squirrel-nuts monkey-bananas cat-fish+and+mice dog-meat+and+bones bee-nectar+from+flowers owl-mice
goat-grass+and+leaves panda-bamboo hen-corn+and+worms sheep-grass lion-meat penguin-fish
elephant-leaves+and+grass giraffe-leaves+from+tall+trees frog-flies hedgehog-beetles+and+worms
duck-water+plants+and+bread fox-berries+and+mice seal-fish hamster-seeds koala-leaves""")
)
YOUNG = pairs("""dog-puppy cat-kitten cow-calf sheep-lamb horse-foal hen-chick duck-duckling goose-gosling pig-piglet
bear-cub lion-cub frog-tadpole goat-kid swan-cygnet deer-fawn owl-owlet fox-cub kangaroo-joey""")
LEGS = {
    "dog": 4,
    "cat": 4,
    "cow": 4,
    "horse": 4,
    "spider": 8,
    "bee": 6,
    "ant": 6,
    "bird": 2,
    "hen": 2,
    "duck": 2,
    "fish": 0,
    "snake": 0,
    "fox": 4,
    "butterfly": 6,
    "frog": 4,
    "robin": 2,
    "sheep": 4,
    "beetle": 6,
    "owl": 2,
    "snail": 0,
    "goat": 4,
    "mouse": 4,
    "rabbit": 4,
    "table": 4,
    "crab": 10,
    "lion": 4,
    "elephant": 4,
    "human": 2,
    "goose": 2,
    "bear": 4,
}
BY_SIZE = (
    "ant bee mouse robin hedgehog rabbit cat fox dog sheep pig wolf donkey lion cow horse bear giraffe elephant whale"
    .split()
)

DAYS = "Monday Tuesday Wednesday Thursday Friday Saturday Sunday".split()
MONTHS = "January February March April May June July August September October November December".split()
SEASONS = "spring summer autumn winter".split()
NUMBERS = """zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen
seventeen eighteen nineteen twenty""".split()

IRREGULAR_PLURALS = dict(
    pairs("""mouse-mice goose-geese child-children man-men woman-women foot-feet tooth-teeth sheep-sheep fish-fish
wolf-wolves leaf-leaves knife-knives ox-oxen deer-deer loaf-loaves person-people thief-thieves
half-halves""")
)
PAST = pairs(
    """go-went see-saw run-ran eat-ate sing-sang swim-swam fly-flew give-gave take-took find-found think-thought
bring-brought buy-bought catch-caught come-came do-did drink-drank fall-fell feel-felt fight-fought
forget-forgot get-got grow-grew have-had hear-heard hide-hid hold-held keep-kept know-knew leave-left
lose-lost make-made meet-met read-read ride-rode ring-rang say-said sell-sold send-sent sit-sat
sleep-slept speak-spoke stand-stood steal-stole sweep-swept teach-taught tell-told throw-threw wake-woke
wear-wore win-won write-wrote walk-walked play-played jump-jumped help-helped look-looked smile-smiled
laugh-laughed cry-cried try-tried carry-carried dance-danced bake-baked paint-painted climb-climbed
open-opened close-closed dig-dug draw-drew build-built blow-blew break-broke begin-began is-was"""
)
RHYMES = [
    group.split()
    for group in """cat hat mat bat rat|dog fog log frog|mouse house|bear pear chair hair|bee tree sea tea key|
moon spoon soon
tune|star car far jar|night light kite bright|day play hay may|rain train plane|snow crow bow|king ring wing
sing|cake lake snake|boat goat coat|book cook hook|bell shell well|fox box rocks socks|sun fun run|tail snail
pail|sky fly pie high|ball wall tall small|hen pen ten|duck truck luck|pig wig fig|nose rose toes|bread bed
red|cow now how|fish dish wish|hill mill still|feather weather together|wind grinned|sleep sheep deep|sand
hand land|door floor four|grey way say""".split("|")
]

# What a thing is for, by its use in world.THINGS: verb phrase with and without the thing.
USES = {
    "light": "to see in the dark",
    "warm": "to keep warm",
    "music": "to make music",
    "carry": "to carry things",
    "float": "to travel on the water",
    "fly": "to play in the wind",
    "play": "to play with",
    "shelter": "to keep off the rain",
    "time": "to tell the time",
    "sit": "to rest on",
    "ride": "to travel quickly",
}
LISTS = {
    "colours": "red blue green yellow orange purple white black brown pink grey".split(),
    "fruits": "apples pears plums cherries peaches lemons oranges figs grapes melons bananas".split(),
    "vegetables": "carrots turnips potatoes onions leeks beans peas cabbages pumpkins".split(),
    "animals": (
        "a fox,a rabbit,a mouse,an owl,a bear,a hedgehog,a squirrel,an otter,a badger,a deer,a lion,a goat".split(",")
    ),
    "birds": "a robin,a sparrow,a crow,a magpie,a dove,an owl,a swan,a swallow,an eagle".split(","),
    "instruments": "a flute,a drum,a fiddle,a harp,a trumpet,a guitar,a banjo".split(","),
    "things you can wear": "a hat,a scarf,a coat,a cloak,a shawl,a jumper".split(","),
    "days of the week": DAYS,
    "months": MONTHS,
    "seasons": SEASONS,
    "insects": "a bee,an ant,a beetle,a butterfly,a cricket,a dragonfly".split(","),
    "things that fly": "a bird,a bee,a kite,a balloon,a butterfly,a bat".split(","),
    "farm animals": "a cow,a pig,a hen,a sheep,a goat,a horse,a duck".split(","),
    "trees": "an oak,a pine,a willow,an apple tree,a cherry tree,a birch".split(","),
    "flowers": "a rose,a tulip,a daisy,a lily,a poppy,a sunflower".split(","),
}

RIDDLES = [
    ("I have hands but cannot clap. What am I?", "A clock."),
    ("I have teeth but cannot bite. What am I?", "A comb."),
    ("The more you take, the more you leave behind. What are they?", "Footsteps."),
    ("I am full of holes but I hold water. What am I?", "A sponge."),
    ("I follow you all day and vanish in the dark. What am I?", "Your shadow."),
    ("I have a neck but no head. What am I?", "A bottle."),
    ("I go up and never come down. What am I?", "Your age."),
    ("I have keys but open no door. What am I?", "A piano."),
    ("I get wetter the more I dry. What am I?", "A towel."),
    ("I am light as a feather, but nobody can hold me for long. What am I?", "Your breath."),
    ("I have leaves but I am not a tree. What am I?", "A book."),
    ("I run all day but have no legs. What am I?", "A river."),
    ("I wear a shell and carry my house. What am I?", "A snail."),
    ("I am white, I fall, and I melt in your hand. What am I?", "Snow."),
    ("I have an eye but cannot see. What am I?", "A needle."),
    ("I can fly without wings when the wind blows. What am I?", "A kite."),
    ("I shine at night and change my shape every day. What am I?", "The moon."),
]
JOKES = [
    ("Why did the owl stay at home?", "Because it did not give a hoot about going out."),
    ("Why did the bee get married?", "Because it found its honey."),
    ("What do you call a sleeping bull?", "A bulldozer."),
    ("Why did the snail paint an S on its cart?", "So that everyone would say: look at that S-car go."),
    ("What did the big chimney say to the little chimney?", "You are too young to smoke."),
    ("Why was the broom late?", "It overswept."),
    ("What do cows read in the morning?", "The moos."),
    ("Why did the clock go to school?", "It had too much time on its hands."),
    ("What has four wheels and flies?", "A hay cart in summer."),
    ("Why do bees hum?", "Because they have forgotten the words."),
    ("Why was the mouse so quiet?", "It did not want to be cat food."),
    ("How does the sea say hello?", "It waves."),
    ("What kind of tree fits in your hand?", "A palm tree."),
]
UNKNOWN_TOPICS = (
    """quantum mechanics|the stock market|the latest news|electricity|the French Revolution|chess openings| black
holes|computer programming|the history of Rome|chemistry|football results|politics|medicine|the
law|algebra|space travel|dinosaurs|volcanoes|the human brain|money|taxes|poetry in Latin|the internet|climate
change|philosophy|electric cars|artificial intelligence|the speed of light|DNA|the president|the capital of
France|the capital of Japan|the population of China|the meaning of life|the Second World War|Shakespeare|the
pyramids|calculus|Python|machine learning|opera|the weather tomorrow|bitcoin|tigers in Siberia|the moon
landing|gravity|vitamins|guitars in rock music|Greek gods|the Olympic Games""".replace("\n", " ")
    .replace("| ", "|")
    .split("|")
)
UNKNOWN_DEEDS = """bake bread|fix a car|learn to drive|write a book|find a job|cook rice|lose weight|make money|build a
computer|install Linux|play chess|solve this equation|learn French|tie a tie|change a tyre|grow tomatoes|clean
a carpet|do
my homework|plan a trip|book a flight|write an email|draw a map of Europe|train a neural network|compile a kernel|use
CUDA|boil an egg|fall asleep|make coffee|remove a stain|paint a house|read faster|invest money|repair a bicycle|get
rich|sort a list|send a letter to Spain|find a good doctor|buy a house|stop smoking|open a bank account|fly a
plane|start a
business|search the internet|set an alarm|play some music|call my mother|order a pizza|check my spelling""".replace(
    "\n", " "
).split("|")
UNKNOWN_REASONS = """is the sky so high|do people sleep|do we dream|did Rome fall|is water wet|does a magnet work|does a
plane fly|do computers think|was the war|is the sea salty|do stars shine|are there taxes|is gold so expensive|does the
heart beat|do leaves change|does a phone work|did the dinosaurs die|is the next train|does time pass|do cats
purr|was the telephone invented|do I feel this way|is my computer slow|are you here|does it rain|do birds
migrate|did this
happen|is the meeting|will it snow|does electricity work""".replace("\n", " ").split("|")
COUNTRIES = """France Germany Japan China India Brazil Italy Spain Canada Egypt Norway Sweden Poland Greece Turkey
Mexico Kenya Australia Peru Chile Iceland Ireland Finland Portugal""".split()
COMFORT = [
    ("sad", "I am sorry that you are sad. Sometimes a story or a walk helps a little. Shall I tell you a story?"),
    ("tired", "Then it is a good time to rest. Sleep well, and dream of something lovely."),
    ("bored", "Then let us do something! I can tell you a story, ask you a riddle or write a little poem."),
    ("happy", "That is good to hear! What made you so happy?"),
    ("hungry", "Then it is time for some soup and bread."),
    ("afraid", "It is all right to be afraid. Take a deep breath and stay close to a friend."),
    ("angry", "I understand. Count slowly to ten and breathe. It often helps."),
    ("lonely", "I am glad that you are talking to me. Shall I tell you a story about a good friend?"),
    ("cold", "Put on a warm scarf and drink something hot."),
    ("lost", "Stay calm and ask somebody kind for the way."),
    ("excited", "How exciting! Tell me about it."),
    ("sick", "I am sorry to hear that. I hope you feel better soon."),
]
