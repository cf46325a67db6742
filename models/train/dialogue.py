"""Documents for the model to read: plain stories, and conversations in ChatML with stories and small skills in them."""

import re

import plots_deeds
import plots_things
from grammar import expand
from skills import exchange, farewell, greeting, plural, thanks
from story import Story
from world import ALL_NAMES, new_name

PLOTS = plots_things.PLOTS + plots_deeds.PLOTS

# What a story of that plot can be said to be about, besides who and what is in it.
ABOUT = {
    "practise": ("learning to {skill}", "someone who wants to {skill}"),
    "noise": ("a strange noise", "a noise in the night"),
    "seed": ("a seed", "a {plant}", "gardening"),
    "race": ("a race",),
    "newcomer": ("a new neighbour", "making friends"),
    "build": ("a {what}", "building a {what}"),
    "winter": ("winter", "the snow"),
    "lost_home": ("getting lost", "finding the way home"),
    "soup": ("soup", "cooking", "dinner"),
    "moon": ("the moon", "the stars"),
    "false_alarm": ("a trick", "a lie"),
    "grumpy": ("somebody grumpy", "making someone smile"),
    "band": ("a band", "music", "a concert"),
    "too_small": ("being small",),
    "orchard": ("a {fruit} tree", "fruit"),
    "treasure": ("a treasure", "a treasure map"),
    "wish": ("a wish", "magic"),
    "trade": ("a market", "trading"),
    "gift": ("a birthday", "a present"),
    "rescue": ("a rescue", "being brave"),
    "mend": ("telling the truth", "an accident"),
    "share": ("two friends", "a quarrel"),
    "find_owner": ("a lost {o.noun}",),
    "search": ("a lost {o.noun}",),
    "retrieve": ("a lost {o.noun}", "asking for help"),
}
SYSTEM = (
    "You are a helpful assistant.",
    "You are a friendly storyteller.",
    "You are attacca-small, a small model that tells stories.",
    "Answer briefly and kindly.",
    "You are a helpful AI assistant named attacca-small.",
)


def new_story(rng):
    plot = PLOTS[int(rng.random() * len(PLOTS))]
    story = Story(rng)
    plot(story)
    story.plot = plot.__name__
    return story


def title(story):
    hero, roles = story.roles["h"], story.roles
    other = roles["o"].noun if "o" in roles and story.chance(0.7) else roles["f"].kind if "f" in roles else ""
    if not other:
        return f"The {hero.trait} {hero.kind}".title() if hero.trait else f"The {hero.kind}".title()
    first = hero.name if hero.name and story.chance(0.5) else "The " + hero.kind.title()
    return f"{first} and the {other.title()}"


def request(story):
    """Asks for a story by naming some of what is in it."""
    rng, roles = story.rng, story.roles
    hero = roles["h"]
    who = hero.plain if rng.random() < 0.7 else hero.short if rng.random() < 0.5 else hero.a
    if rng.random() < 0.06:
        who = plural(hero.kind)
    elif hero.name and rng.random() < 0.08:
        who = hero.name
    topics = [who]
    if "o" in roles and rng.random() < 0.7:
        topics.append(roles["o"].plain if rng.random() < 0.8 else roles["o"].a)
    elif "f" in roles and rng.random() < 0.3:
        topics.append(roles["f"].plain)
    elif rng.random() < 0.4:
        topics.append(story.words(*ABOUT[story.plot]))
    roll = rng.random()
    if roll < 0.08:
        topics = [story.words(*ABOUT[story.plot])]
    elif roll < 0.14:
        topics = [story.theme]
    elif roll < 0.2 and "o" in roles:
        topics = [roles["o"].plain]
    about = " and ".join(topics)
    where = f" {roles['p'].at}" if rng.random() < 0.12 else ""
    fill = {"x": about, "w": where, "t": title(story), "k": hero.plain}
    if rng.random() < 0.12:
        return expand(
            rng.choice(
                (
                    "Tell me a [short |little |]story.",
                    "[A story, please.|Another story, please.|I want a story.|I would like a story.]",
                    "Can you tell me a [bedtime |]story?",
                    "[Write|Make up] a story.",
                    "Once upon a time ...",
                    "Tell me [another one|something nice|another story].",
                )
            ),
            fill,
            rng,
        )
    if rng.random() < 0.05:
        return expand('[Write|Tell me] a story [called|with the title] "{t}".', fill, rng)
    return expand(
        rng.choice(
            (
                "Tell me a story about {x}{w}.",
                "Tell me a story about {x}{w}.",
                "Tell me a [short|little|nice|good|bedtime] story about {x}{w}.",
                "[Write|Please write|Write me] a [short |]story about {x}{w}.",
                "Can you [tell me|write] a [short |]story about {x}{w}?",
                "I [want|would like] a story about {x}{w}.",
                "A story about {x}{w}[|, please].",
                "[Do you know|Could you tell me] a story about {x}{w}?",
                "Make up a [short |]story about {x}{w}.",
                "Tell me about {x}{w}.",
                "Story about {x}{w}",
                "Let's have a story about {x}{w}.",
                "Tell a [story|tale] about {x}{w}.",
                "[Tell me|Write] a [tale|fairy tale] about {x}{w}.",
            )
        ),
        fill,
        rng,
    )


def typed(rng, text):
    """The user's text as people type it: now and then without a full stop or a capital."""
    if rng.random() < 0.2 and text[-1] in ".!?":
        text = text[:-1]
    first = text.split(" ", 1)[0].strip(",.!?")
    if rng.random() < 0.15 and first not in ALL_NAMES and first not in ("I", "I'm"):
        text = text[0].lower() + text[1:]
    return text


def told(rng):
    """A story on request, and some talk about it."""
    story = new_story(rng)
    text = story.text()
    roll = rng.random()
    if roll < 0.06:
        at = text.index(". ") + 1
        if rng.random() < 0.5:
            at = text.index(".", at + 1) + 1
            at += 1 if text[at : at + 1] == '"' else 0
        turns = [
            (
                rng.choice(
                    ("Continue this story: ", "Continue: ", "Finish this story: ", "Go on: ", "How does it go on? ")
                )
                + text[:at],
                text[at:].strip(),
            )
        ]
        if not turns[0][1]:
            turns = [(request(story), text)]
    else:
        turns = [(typed(rng, request(story)), text)]
    hero = story.roles["h"]
    if hero.name and roll > 0.96:
        new = new_name(rng, hero.gender)
        if new not in text:
            turns.append(
                (
                    typed(
                        rng,
                        expand(
                            "[Tell it again, but call the {k} {n}.|Again, with the name {n}.|Change the name to {n}."
                            "|Please tell it again with the name {n}.]",
                            {"k": hero.kind, "n": new},
                            rng,
                        ),
                    ),
                    re.sub(rf"\b{hero.name}\b", new, turns[0][1]),
                )
            )
    elif rng.random() < 0.45:
        for question, answer in rng.sample(story.questions, min(len(story.questions), rng.randint(1, 3))):
            turns.append((typed(rng, question), answer))
    return turns


def small(rng):
    """A small skill, and what follows when the answer offers a story."""
    turns = exchange(rng)
    if not any(":" in user for user, _ in turns):  # after a colon stands text to be copied as it is
        turns = [(typed(rng, user), assistant) for user, assistant in turns]
    return accepted(rng, turns)


def accepted(rng, turns):
    """Sometimes a story that was offered is taken, or refused."""
    if turns[-1][1].endswith("story?") and rng.random() < 0.4:
        if rng.random() < 0.8:
            yes = rng.choice(("Yes.", "Yes, please.", "yes", "Yes please!", "Sure.", "Of course.", "OK.", "Please do."))
            return turns + [(yes, new_story(rng).text())]
        no = rng.choice(("No.", "No, thank you.", "no", "Not now.", "Maybe later."))
        return turns + [(no, rng.choice(("All right. What else can I do for you?", "All right. Perhaps later.")))]
    return turns


def conversation(rng, most_characters=3400):
    turns = []
    if rng.random() < 0.12:
        turns += accepted(rng, [greeting(rng)])
    if rng.random() < 0.6:
        turns += told(rng)
        while rng.random() < 0.35:
            turns += told(rng) if rng.random() < 0.4 else small(rng)
    else:
        turns += small(rng)
        while rng.random() < 0.6:
            turns += small(rng) if rng.random() < 0.85 else told(rng)
    if rng.random() < 0.1:
        turns.append(thanks(rng))
    if rng.random() < 0.06:
        turns.append(farewell(rng))
    messages = []
    if rng.random() < 0.12:
        messages.append(("system", rng.choice(SYSTEM)))
    length = 0
    for user, assistant in turns:
        length += len(user) + len(assistant)
        if messages and length > most_characters:
            break
        messages += [("user", user), ("assistant", assistant)]
    return "\n".join(f"<|im_start|>{role}\n{text}<|im_end|>" for role, text in messages)


def document(rng):
    """One document, ending with <|im_end|>."""
    if rng.random() < 0.35:
        story = new_story(rng)
        head = title(story) + "\n\n" if rng.random() < 0.1 else ""
        return head + story.text() + "<|im_end|>"
    return conversation(rng)
