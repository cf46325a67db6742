"""Templates that expand into sentences.

    [a|b|c]     one of the alternatives, which may nest and may be empty
    {h}         how the text refers to role h; {H} the same with a capital first letter
    {h.his}     an attribute of role h; {H.his} capitalised
    <glad>      one of the synonyms listed under that name in SYNONYMS

Each template is parsed once and kept as a tree of parts; expanding it is one walk over that tree.
"""

import re

SYNONYMS = {}
_TOKENS = re.compile(r"[\[\]|]|\{[^}]*\}|<[a-z_]+>|[^\[\]|{}<]+")
_ARTICLE = re.compile(r"\b([Aa]) (?=[aeiou]|honest|hour\b)(?!uni|use|one\b|once)")
_trees = {}


def parse(template):
    """The tree of a template: a list of str, (role, attribute, is_capital) and [alternative trees]."""
    tree = _trees.get(template)
    if tree is None:
        tokens = _TOKENS.findall(template)
        if "".join(tokens) != template:
            raise ValueError(f"template {template!r} has a stray brace or angle bracket")
        tree, end = _sequence(tokens, 0, template)
        if end != len(tokens):
            raise ValueError(f"template {template!r} closes a bracket that is not open")
        _trees[template] = tree
    return tree


def _sequence(tokens, at, template):
    parts = []
    while at < len(tokens) and tokens[at] not in "|]":
        token = tokens[at]
        at += 1
        if token == "[":
            choices = []
            while True:
                choice, at = _sequence(tokens, at, template)
                choices.append(choice)
                if at == len(tokens):
                    raise ValueError(f"template {template!r} leaves a bracket open")
                at += 1
                if tokens[at - 1] == "]":
                    break
            parts.append(choices)
        elif token[0] == "{":
            role, _, attribute = token[1:-1].partition(".")
            parts.append((role.lower(), attribute, role[0].isupper()))
        elif token[0] == "<":
            parts.append([parse(choice) for choice in SYNONYMS[token[1:-1]].split("|")])
        else:
            parts.append(token)
    return parts, at


def _walk(tree, roles, rng, out):
    for part in tree:
        kind = type(part)
        if kind is str:
            out.append(part)
        elif kind is list:
            _walk(part[int(rng.random() * len(part))], roles, rng, out)
        else:
            role, attribute, is_capital = part
            value = roles[role]
            if attribute:
                value = getattr(value, attribute)
            elif type(value) is not str:
                value = value.mention(rng)
            out.append(value[0].upper() + value[1:] if is_capital and value else value)


def expand(template, roles, rng):
    out = []
    _walk(parse(template), roles, rng, out)
    return _ARTICLE.sub(r"\1n ", "".join(out))


def an(phrase):
    """The phrase with its indefinite article."""
    return _ARTICLE.sub(r"\1n ", "a " + phrase)
