#!/usr/bin/env python3
"""Writes tests/grammar/fixtures/*.json: JSON schemas, and texts that they accept or refuse.

The schemas are below, each with values to try. python3-jsonschema decides which of these are valid. Valid values are
written as attacca writes JSON (docs/grammar.md), so a value that is valid but that attacca would never write, such as an
object whose keys are in another order, does not belong here.

    make_cases.py FOLDER
"""
import json
import pathlib
import re
import sys

import jsonschema

NAME, AGE = {"type": "string"}, {"type": "integer"}


def kinds():
    """The types, alone and together."""
    every = [None, True, False, 0, -7, 3.5, "", "text", [], [1], {}, {"a": 1}]
    for kind in ("null", "boolean", "integer", "number", "string", "array", "object"):
        yield f"type {kind}", {"type": kind}, every
    yield "two types", {"type": ["string", "null"]}, every
    yield "three types", {"type": ["integer", "boolean", "array"]}, every
    yield "number and integer", {"type": ["number", "integer"]}, every
    yield "anything", {}, every
    yield "true", True, every
    yield "only annotations", {"title": "t", "description": "d", "default": 1, "examples": [1], "$comment": "c",
                               "deprecated": True, "readOnly": True, "$schema": "https://json-schema.org/draft/2020-12/schema",
                               "$id": "https://example.com/a"}, every
    yield "an unknown keyword", {"type": "null", "x-order": 3}, every
    yield "const string", {"const": "yes"}, ["yes", "no", "ye", "yess", None]
    yield "const number", {"const": 12}, [12, 1, 13, 120]
    yield "const negative fraction", {"const": -0.25}, [-0.25, 0.25, -0.2]
    yield "const null", {"const": None}, every
    yield "const object", {"const": {"a": [1, {"b": None}], "c": "d"}}, [{"a": [1, {"b": None}], "c": "d"}, {"a": 1}]
    yield "const list", {"const": [1, "x", False]}, [[1, "x", False], [1, "x"], []]
    yield "const empty containers", {"enum": [[], {}]}, [[], {}, [1], {"a": 1}]
    yield "enum of strings", {"enum": ["red", "green", "blue"]}, ["red", "green", "blue", "re", "redd", "yellow", None]
    yield "enum of prefixes", {"enum": ["a", "ab", "abc"]}, ["a", "ab", "abc", "b", "abcd", ""]
    yield "enum of all kinds", {"enum": ["x", 1, None, True, [1], {"k": 2}]}, ["x", 1, None, True, [1], {"k": 2}, 2, "y", False]
    yield "enum of numbers", {"enum": [1, 10, 100, 2.5]}, [1, 10, 100, 2.5, 11, 1000, 2]
    yield "enum filtered by type", {"type": "string", "enum": ["a", 1, "b", None]}, ["a", "b", 1, None]
    yield "enum filtered by length", {"enum": ["a", "bb", "ccc"], "minLength": 2}, ["a", "bb", "ccc"]
    yield "enum filtered by pattern", {"enum": ["cat", "dog", "cow"], "pattern": "^c"}, ["cat", "cow", "dog"]
    yield "enum filtered by range", {"enum": [1, 5, 9], "maximum": 5}, [1, 5, 9]
    yield "enum with escapes", {"enum": ["a\"b", "c\\d", "e\nf", "\u0001", "é🙂", "/"]}, ["a\"b", "c\\d", "e\nf", "\u0001", "é🙂", "/", "ab"]
    yield "the empty string", {"const": ""}, ["", "a"]
    yield "boolean by enum", {"enum": [True]}, [True, False]


def numbers():
    """Bounds of integers and other numbers."""
    tried = sorted({0, 1, 2, 3, 4, 5, 7, 9, 10, 11, 12, 42, 99, 100, 101, 120, 149, 150, 151, 199, 200, 255, 256, 999, 1000,
                    1001, 65535, 65536, -1, -2, -5, -9, -10, -11, -99, -100, -101, -273, -274})
    for low, high in ((0, 0), (0, 1), (0, 9), (0, 10), (1, 12), (5, 5), (0, 100), (0, 150), (10, 99), (11, 101), (18, 120),
                      (0, 255), (1, 65535), (-5, 5), (-10, -2), (-273, 0), (-100, 1000), (99, 101), (199, 200)):
        yield f"integer from {low} to {high}", {"type": "integer", "minimum": low, "maximum": high}, tried
    for low in (-10, 0, 1, 42, 1000):
        yield f"integer from {low}", {"type": "integer", "minimum": low}, tried
        yield f"integer below {low}", {"type": "integer", "exclusiveMaximum": low}, tried
    yield "integer above a fraction", {"type": "integer", "minimum": 0.5, "maximum": 3.5}, tried
    yield "integer between exclusive bounds", {"type": "integer", "exclusiveMinimum": 3, "exclusiveMaximum": 12}, tried
    yield "integer with both kinds of bounds", {"type": "integer", "minimum": 3, "exclusiveMinimum": 3, "maximum": 9}, tried
    yield "integer with far bounds", {"type": "integer", "minimum": -9007199254740991, "maximum": 9007199254740991}, tried
    yield "integer with a huge maximum", {"type": "integer", "minimum": 0, "maximum": 1e300}, tried
    for divisor in (2, 3, 5, 7, 10, 12, 60, 100, 256):
        yield f"multiple of {divisor}", {"type": "integer", "multipleOf": divisor}, tried
    yield "multiple in a range", {"type": "integer", "multipleOf": 5, "minimum": -10, "maximum": 101}, tried
    yield "number with a whole multiple", {"type": "number", "multipleOf": 3, "minimum": 0}, [0, 3, 12, 4, -3]
    yield "multiple of two numbers", {"type": "integer", "allOf": [{"multipleOf": 4}, {"multipleOf": 6}]}, [0, 12, 4, 6, 24]
    fractions = [0, 0.5, 0.25, 0.1, 0.05, 1, 1.5, 1.05, 2, 9.99, 10, 99.5, 100, 100.01, -0.5, -1, -1.5, -1.51, -40, 3.14159, 3.2, 37.5]
    for low, high in ((0, 1), (-1.5, 1.5), (0.1, 0.5), (0, 100), (35.5, 42), (-40, -0.5), (3.14, 3.15), (1, 1), (0.05, 9.99)):
        yield f"number from {low} to {high}", {"type": "number", "minimum": low, "maximum": high}, fractions
    yield "positive number", {"type": "number", "exclusiveMinimum": 0}, fractions
    yield "number below one", {"type": "number", "exclusiveMaximum": 1}, fractions
    yield "open unit interval", {"type": "number", "exclusiveMinimum": 0, "exclusiveMaximum": 1}, fractions
    yield "number with tiny bounds", {"type": "number", "minimum": 1e-7, "maximum": 0.001}, [0.0005, 0.001, 0.01, 0]
    yield "bounds of any type", {"minimum": 3}, [3, 2, 2.5, 3.5, "text", None, [], {}]


def strings():
    """Lengths, patterns and formats."""
    words = ["", "a", "é", "🙂", "ab", "abc", "abcd", "🙂🙂", "a\"b", "\n\t", "\\", "naïve", "hello world", "x" * 20]
    for low, high in ((0, 0), (0, 1), (1, 1), (2, 3), (1, 5), (5, 20), (3, 3)):
        yield f"from {low} to {high} characters", {"type": "string", "minLength": low, "maxLength": high}, words
    for low in (1, 2, 5):
        yield f"{low} characters or more", {"type": "string", "minLength": low}, words
    for high in (2, 4, 100):
        yield f"at most {high} characters", {"type": "string", "maxLength": high}, words
    texts = ["", "a", "ab", "abc", "ABC", "abab", "12", "123", "1234", "a1", "A-1", "foo_bar", "2024-01-31", "#ff00cc",
             "+49 170 1234567", "x@y.de", "v1.20.3", "é", "日本", "hello world", "cab", "aXb", "a.b", "\"", "\\d", "tab\t"]
    for pattern in ("^a", "b$", "b", "^$", "^a*$", "^(a|b)+$", "^[a-z]+$", "^[^a-z]+$", "^\\d{2,3}$", "^\\w+$", "^\\S+$",
                    "^[A-Z][A-Z0-9]*-\\d+$", "^[a-z_]+$", "^#[0-9a-f]{6}$", "^\\+?[0-9 ]{7,15}$", "^v\\d+(\\.\\d+){2}$",
                    "^\\d{4}-\\d{2}-\\d{2}$", "^(?:cat|dog|abc)$", "^(a|b)", "a|^b$", "^a.b$", "^a\\.b$", "^.{3}$", "[é日]",
                    "^[\\u00e0-\\u00ff]$", "\\D\\d", "^[\\s\\S]*$", "^\\x61", "^(ab){1,2}c?$", "^a?b?c?$", "\"",
                    "^\\\\", "^(?<year>\\d+)$", "^\\W?$", "^[\\w.-]+@[\\w.-]+$", "^(?:a+?b*?){2}$", "^\\t|\\t$", "[^\\x00-\\x7f]",
                    "^[\\-a\\]]+$", "x{0}$", "(^a$)|(^12$)"):
        yield f"pattern {pattern}", {"type": "string", "pattern": pattern}, texts
    yield "pattern and length", {"type": "string", "pattern": "^[ab]*$", "minLength": 2, "maxLength": 4}, ["", "a", "ab", "abab", "ababa", "abc"]
    yield "two patterns", {"allOf": [{"type": "string", "pattern": "a"}, {"pattern": "b"}], "maxLength": 4}, ["ab", "ba", "a", "b", "cab", "aaaab"]
    yield "pattern of any type", {"pattern": "^a+$"}, ["a", "aa", "b", 1, None]
    formats = {
        "date": ["2024-02-29", "2023-02-29", "1999-12-31", "2000-02-29", "1900-02-29", "2024-13-01", "2024-00-10", "2024-04-31", "24-01-01"],
        "time": ["12:30:00Z", "23:59:59.123+01:00", "24:00:00Z", "12:60:00Z", "12:30"],
        "date-time": ["2024-02-29T12:30:00Z", "2023-06-01T00:00:00-05:30", "2023-02-29T12:30:00Z", "2024-01-01", "2024-01-01 10:00:00Z"],
        "uuid": ["123e4567-e89b-12d3-a456-426614174000", "123E4567-E89B-12D3-A456-426614174000", "123e4567e89b12d3a456426614174000", "x"],
        "email": ["a@b.de", "first.last+tag@sub.example.com", "a.b"],
        "ipv4": ["0.0.0.0", "255.255.255.255", "192.168.1.10", "256.1.1.1", "1.2.3", "01.2.3.4"],
        "int32": ["anything"],
    }
    for name, tried in formats.items():
        yield f"format {name}", {"type": "string", "format": name}, tried
    yield "format and maximum length", {"type": "string", "format": "ipv4", "maxLength": 8}, ["1.2.3.4", "10.20.30.40"]


def objects():
    """Properties, required ones, additional ones, and their number."""
    person = {"name": NAME, "age": AGE}
    people = [{}, {"name": "Ann"}, {"age": 3}, {"name": "Ann", "age": 3}, {"name": 3}, {"name": "Ann", "age": "3"}, [], None]
    yield "optional properties", {"type": "object", "properties": person}, people
    yield "closed object", {"type": "object", "properties": person, "additionalProperties": False}, [*people, {"name": "Ann", "x": 1}]
    yield "one required", {"type": "object", "properties": person, "required": ["age"]}, people
    yield "all required", {"type": "object", "properties": person, "required": ["age", "name"], "additionalProperties": False}, people
    yield "open object", {"type": "object", "properties": person, "additionalProperties": True}, [*people, {"name": "Ann", "x": None, "y": [1]}]
    yield "additional integers", {"type": "object", "additionalProperties": AGE}, [{}, {"a": 1}, {"a": 1, "b": 2}, {"a": "x"}, {"": 0}]
    yield "properties and additional strings", {"type": "object", "properties": {"n": AGE}, "additionalProperties": NAME}, [{}, {"n": 1}, {"n": 1, "m": "x"}, {"m": "x"}, {"n": "x"}, {"m": 1}]
    yield "empty object only", {"type": "object", "additionalProperties": False}, [{}, {"a": 1}]
    yield "required without a property", {"type": "object", "required": ["id"]}, [{"id": 1}, {"id": [None]}, {}]
    yield "required by name only", {"type": "object", "properties": {"a": AGE}, "required": ["a", "b"], "additionalProperties": AGE}, [{"a": 1, "b": 2}, {"a": 1}, {"b": 2}, {"a": 1, "b": "x"}]
    yield "properties that begin alike", {"type": "object", "properties": {"a": AGE, "ab": AGE, "abc": AGE}, "additionalProperties": False}, [{"a": 1}, {"ab": 1}, {"abc": 1}, {"a": 1, "abc": 2}, {"abcd": 1}]
    yield "properties that begin alike, open", {"type": "object", "properties": {"a": AGE, "ab": AGE}, "additionalProperties": NAME}, [{"a": 1}, {"abc": "x"}, {"ab": "x"}, {"ab": 1, "b": "y"}, {"b": "y", "bb": "z"}]
    yield "keys that need escapes", {"type": "object", "properties": {"a\"b": AGE, "c\\d": AGE, "ü\n": AGE}, "required": ["ü\n"], "additionalProperties": False}, [{"ü\n": 1}, {"a\"b": 1, "ü\n": 1}, {"c\\d": 1, "ü\n": 1}, {"a\"b": 1}]
    yield "the empty key", {"type": "object", "properties": {"": AGE}, "required": [""]}, [{"": 1}, {}]
    yield "keys with slashes", {"type": "object", "properties": {"a/b": AGE, "c~d": NAME}, "required": ["c~d"]}, [{"a/b": 1, "c~d": "x"}, {"c~d": "x"}, {"a/b": 1}]
    six = {key: AGE for key in "abcdef"}
    tried = [{}, {"a": 1}, {"f": 1}, {"a": 1, "c": 2, "e": 3}, {"b": 1, "f": 2}, {key: 1 for key in "abcdef"}]
    yield "six optional", {"type": "object", "properties": six, "additionalProperties": False}, tried
    yield "first and last required", {"type": "object", "properties": six, "required": ["a", "f"], "additionalProperties": False}, [*tried, {"a": 1, "f": 2}, {"a": 1, "d": 0, "f": 2}]
    yield "two to three of six", {"type": "object", "properties": six, "minProperties": 2, "maxProperties": 3, "additionalProperties": False}, [*tried, {"a": 1, "f": 2}]
    yield "at least one", {"type": "object", "minProperties": 1}, [{}, {"a": 1}, {"a": 1, "b": 2}]
    yield "at most one", {"type": "object", "maxProperties": 1, "additionalProperties": AGE}, [{}, {"a": 1}, {"a": 1, "b": 2}]
    yield "exactly two", {"type": "object", "minProperties": 2, "maxProperties": 2, "additionalProperties": {"type": "boolean"}}, [{}, {"a": True}, {"a": True, "b": False}, {"a": True, "b": True, "c": True}]
    yield "no property at all", {"type": "object", "maxProperties": 0}, [{}, {"a": 1}]
    yield "a forbidden property", {"type": "object", "properties": {"a": False, "b": AGE}}, [{}, {"b": 1}, {"a": 1}]
    yield "nested objects", {"type": "object", "properties": {"a": {"type": "object", "properties": {"b": {"type": "object", "properties": {"c": AGE}, "required": ["c"]}}, "required": ["b"]}}, "required": ["a"]}, [{"a": {"b": {"c": 1}}}, {"a": {"b": {}}}, {"a": {}}, {}]
    yield "properties without a type", {"properties": {"a": AGE}, "required": ["a"]}, [{"a": 1}, {"a": "x"}, {}, 3, "text", []]
    yield "nullable property", {"type": "object", "properties": {"a": {"type": ["string", "null"]}}, "required": ["a"]}, [{"a": None}, {"a": "x"}, {"a": 1}]


def arrays():
    """Items, their prefix and their number."""
    tried = [[], [1], [1, 2], [1, 2, 3], [1, 2, 3, 4], ["x"], [1, "x"], [None], {}, 1]
    yield "array of integers", {"type": "array", "items": AGE}, tried
    yield "array of anything", {"type": "array", "items": True}, tried
    yield "only the empty array", {"type": "array", "items": False}, tried
    for low, high in ((0, 0), (0, 2), (1, 1), (2, 3), (1, 4)):
        yield f"{low} to {high} items", {"type": "array", "items": AGE, "minItems": low, "maxItems": high}, tried
    yield "three items or more", {"type": "array", "items": AGE, "minItems": 3}, tried
    yield "at most three of anything", {"type": "array", "maxItems": 3}, tried
    yield "prefix", {"type": "array", "prefixItems": [AGE, NAME], "items": False}, [[], [1], [1, "x"], ["x"], [1, "x", 2]]
    yield "whole prefix", {"type": "array", "prefixItems": [AGE, NAME], "items": False, "minItems": 2}, [[], [1], [1, "x"], [1, "x", 2]]
    yield "prefix and items", {"type": "array", "prefixItems": [NAME], "items": AGE}, [[], ["x"], ["x", 1], ["x", 1, 2], [1], ["x", "y"]]
    yield "prefix and counts", {"type": "array", "prefixItems": [NAME], "items": AGE, "minItems": 2, "maxItems": 3}, [["x"], ["x", 1], ["x", 1, 2], ["x", 1, 2, 3]]
    yield "prefix alone", {"type": "array", "prefixItems": [AGE, AGE], "minItems": 2}, [[1, 2], [1], ["x", 2]]
    yield "matrix", {"type": "array", "items": {"type": "array", "items": {"type": "number"}, "minItems": 2, "maxItems": 2}}, [[], [[1, 2]], [[1, 2], [3.5, -4]], [[1]], [1]]
    yield "array of enums", {"type": "array", "items": {"enum": ["a", "b"]}, "maxItems": 2}, [[], ["a"], ["b", "a"], ["c"], ["a", "a", "a"]]
    yield "array of objects", {"type": "array", "items": {"type": "object", "properties": {"id": AGE}, "required": ["id"]}, "minItems": 1}, [[{"id": 1}], [{"id": 1}, {"id": 2}], [], [{}]]
    yield "array of mixed types", {"type": "array", "items": {"type": ["integer", "string", "null"]}}, [[], [1, "x", None], [True]]
    yield "items without a type", {"items": AGE, "maxItems": 1}, [[], [1], ["x"], [1, 2], 3, "text", {}]
    yield "unique items not asked for", {"type": "array", "items": AGE, "uniqueItems": False}, tried
    yield "forbidden second item", {"type": "array", "prefixItems": [AGE, False]}, [[], [1], [1, 2]]


def combinations():
    """anyOf, oneOf and allOf."""
    yield "any of two types", {"anyOf": [AGE, NAME]}, [1, "x", None, [], 1.5]
    yield "any of two ranges", {"anyOf": [{"type": "integer", "maximum": 3}, {"type": "integer", "minimum": 100}]}, [3, 4, 99, 100, -50]
    yield "any of overlapping strings", {"anyOf": [{"type": "string", "pattern": "^a"}, {"type": "string", "pattern": "b$"}]}, ["a", "b", "ab", "ba", "c"]
    yield "any of objects", {"anyOf": [{"type": "object", "properties": {"a": AGE}, "required": ["a"], "additionalProperties": False}, {"type": "object", "properties": {"a": NAME, "b": AGE}, "required": ["b"], "additionalProperties": False}]}, [{"a": 1}, {"a": "x", "b": 1}, {"b": 1}, {"a": "x"}, {"a": 1, "b": 1}]
    yield "any of with a base", {"type": "object", "properties": {"a": AGE, "b": AGE}, "additionalProperties": False, "anyOf": [{"required": ["a"]}, {"required": ["b"]}]}, [{"a": 1}, {"b": 1}, {"a": 1, "b": 1}, {}]
    yield "any of inside any of", {"anyOf": [{"anyOf": [{"const": 1}, {"const": 2}]}, {"anyOf": [{"const": "a"}]}]}, [1, 2, "a", 3, "b"]
    yield "any of with false", {"anyOf": [False, {"type": "null"}]}, [None, 1]
    yield "any of enum or free", {"anyOf": [{"enum": ["auto", "none"]}, {"type": "integer", "minimum": 0}]}, ["auto", "none", 5, -1, "other"]
    yield "all of bounds", {"type": "integer", "allOf": [{"minimum": 3}, {"maximum": 9}]}, [2, 3, 9, 10]
    yield "all of objects", {"allOf": [{"type": "object", "properties": {"a": AGE}, "required": ["a"]}, {"properties": {"b": NAME}, "required": ["b"]}]}, [{"a": 1, "b": "x"}, {"a": 1}, {"b": "x"}, {"a": "x", "b": "x"}]
    yield "all of the same property", {"type": "object", "allOf": [{"properties": {"a": {"type": "integer", "minimum": 3}}}, {"properties": {"a": {"maximum": 5}}, "required": ["a"]}]}, [{"a": 3}, {"a": 5}, {"a": 2}, {"a": 6}, {}]
    yield "all of types", {"allOf": [{"type": ["string", "null", "integer"]}, {"type": ["null", "integer", "array"]}]}, [None, 1, "x", []]
    yield "all of enums", {"allOf": [{"enum": [1, 2, 3]}, {"enum": [2, 3, 4]}]}, [1, 2, 3, 4]
    yield "all of any of", {"allOf": [{"anyOf": [{"type": "string"}, {"type": "integer"}]}, {"anyOf": [{"maximum": 5}, {"type": "null"}]}]}, [3, 6, "x", None]
    yield "all of a closed object", {"allOf": [{"type": "object", "properties": {"a": AGE, "b": AGE}, "additionalProperties": False}, {"required": ["b"]}]}, [{"b": 1}, {"a": 1, "b": 2}, {"a": 1}, {"b": 1, "c": 1}]
    yield "all of arrays", {"type": "array", "allOf": [{"items": {"type": "integer"}}, {"items": {"minimum": 3}, "maxItems": 2}]}, [[], [3], [3, 4], [2], [3, 4, 5], ["x"]]
    yield "one of types", {"oneOf": [NAME, {"type": "null"}, {"type": "array", "items": AGE}]}, ["x", None, [1], 1, ["x"]]
    yield "one of constants", {"oneOf": [{"const": "a"}, {"const": "b"}, {"const": 3}]}, ["a", "b", 3, "c", 4]
    yield "one of ranges", {"oneOf": [{"type": "integer", "maximum": 0}, {"type": "integer", "exclusiveMinimum": 0, "maximum": 9}]}, [-3, 0, 1, 9, 10]
    yield "one of tagged objects", {"oneOf": [
        {"type": "object", "properties": {"kind": {"const": "circle"}, "radius": {"type": "number"}}, "required": ["kind", "radius"], "additionalProperties": False},
        {"type": "object", "properties": {"kind": {"const": "square"}, "side": {"type": "number"}}, "required": ["kind", "side"], "additionalProperties": False}]}, [
        {"kind": "circle", "radius": 2}, {"kind": "square", "side": 1.5}, {"kind": "circle", "side": 1}, {"kind": "line"}]
    yield "one of objects with other keys", {"oneOf": [{"type": "object", "properties": {"a": AGE}, "required": ["a"], "additionalProperties": False}, {"type": "object", "properties": {"b": AGE}, "required": ["b"], "additionalProperties": False}]}, [{"a": 1}, {"b": 1}, {}, {"a": 1, "b": 1}]
    yield "one of with an enum tag", {"type": "object", "properties": {"op": NAME}, "required": ["op"], "oneOf": [{"properties": {"op": {"enum": ["add", "sub"]}, "by": AGE}, "required": ["by"]}, {"properties": {"op": {"enum": ["neg"]}}}]}, [{"op": "add", "by": 1}, {"op": "neg"}, {"op": "add"}, {"op": "mul"}]
    yield "one of lengths", {"oneOf": [{"type": "string", "maxLength": 2}, {"type": "string", "minLength": 4}]}, ["", "ab", "abc", "abcd"]
    yield "one of patterns", {"oneOf": [{"type": "string", "pattern": "^a+$"}, {"type": "string", "pattern": "^b+$"}]}, ["a", "bb", "ab", ""]
    yield "one of array lengths", {"oneOf": [{"type": "array", "items": AGE, "maxItems": 1}, {"type": "array", "items": NAME, "minItems": 2}]}, [[], [1], ["a", "b"], [1, 2], ["a"]]
    yield "one of one", {"oneOf": [NAME]}, ["x", 1]


def references():
    """$ref, $defs and recursion."""
    tree = {"$defs": {"node": {"type": "object", "properties": {"value": AGE, "children": {"type": "array", "items": {"$ref": "#/$defs/node"}}}, "required": ["value"], "additionalProperties": False}}, "$ref": "#/$defs/node"}
    yield "tree", tree, [{"value": 1}, {"value": 1, "children": []}, {"value": 1, "children": [{"value": 2, "children": [{"value": 3}]}]}, {"children": []}, {"value": 1, "children": [{}]}]
    yield "linked list", {"type": "object", "properties": {"v": AGE, "next": {"anyOf": [{"$ref": "#"}, {"type": "null"}]}}, "required": ["v", "next"], "additionalProperties": False}, [{"v": 1, "next": None}, {"v": 1, "next": {"v": 2, "next": None}}, {"v": 1}, {"v": 1, "next": {}}]
    yield "definitions", {"definitions": {"positive": {"type": "integer", "exclusiveMinimum": 0}}, "type": "array", "items": {"$ref": "#/definitions/positive"}}, [[], [1], [0], ["x"]]
    yield "reference to a property", {"type": "object", "properties": {"a": {"enum": [1, 2]}, "b": {"$ref": "#/properties/a"}}, "required": ["b"]}, [{"a": 1, "b": 2}, {"b": 1}, {"b": 3}, {"a": 1}]
    yield "reference with siblings", {"$defs": {"n": {"type": "integer", "minimum": 0}}, "$ref": "#/$defs/n", "maximum": 9}, [0, 9, 10, -1]
    yield "chain of references", {"$defs": {"a": {"$ref": "#/$defs/b"}, "b": {"$ref": "#/$defs/c"}, "c": {"type": "boolean"}}, "$ref": "#/$defs/a"}, [True, False, None]
    yield "escaped pointers", {"$defs": {"a/b": {"const": 1}, "c~d": {"const": 2}, "e f": {"const": 3}}, "anyOf": [{"$ref": "#/$defs/a~1b"}, {"$ref": "#/$defs/c~0d"}, {"$ref": "#/$defs/e%20f"}]}, [1, 2, 3, 4]
    yield "mutual recursion", {"$defs": {"even": {"type": "array", "items": {"$ref": "#/$defs/odd"}, "maxItems": 2}, "odd": {"type": "object", "properties": {"x": {"$ref": "#/$defs/even"}}, "additionalProperties": False}}, "$ref": "#/$defs/even"}, [[], [{}], [{"x": []}, {"x": [{}]}], [[]], {}]
    yield "expression", {"$defs": {"e": {"anyOf": [{"type": "integer", "minimum": 0, "maximum": 99}, {"type": "object", "properties": {"op": {"enum": ["+", "*"]}, "left": {"$ref": "#/$defs/e"}, "right": {"$ref": "#/$defs/e"}}, "required": ["op", "left", "right"], "additionalProperties": False}]}}, "$ref": "#/$defs/e"}, [5, {"op": "+", "left": 1, "right": {"op": "*", "left": 2, "right": 3}}, {"op": "-", "left": 1, "right": 2}, {"op": "+", "left": 1}]
    yield "nested lists", {"$defs": {"l": {"type": "array", "items": {"$ref": "#/$defs/l"}}}, "$ref": "#/$defs/l"}, [[], [[]], [[], [[]]], [1]]
    yield "ambiguous recursion", {"$defs": {"t": {"anyOf": [{"type": "object", "properties": {"x": {"$ref": "#/$defs/t"}}, "additionalProperties": False}, {"type": "object", "properties": {"x": {"$ref": "#/$defs/t"}, "y": AGE}, "additionalProperties": False}]}}, "$ref": "#/$defs/t"}, [{}, {"x": {}}, {"x": {"x": {"y": 1}}, "y": 2}, {"x": 1}]
    yield "an unused definition that is not supported", {"$defs": {"bad": {"not": {}}}, "type": "null"}, [None, 1]
    yield "a branch that never ends", {"$defs": {"loop": {"type": "object", "properties": {"x": {"$ref": "#/$defs/loop"}}, "required": ["x"]}}, "anyOf": [{"$ref": "#/$defs/loop"}, {"type": "integer"}]}, [1, {"x": 1}, {}]


def applications():
    """Schemas as people write them for tools and extraction."""
    yield "weather tool", {"type": "object", "properties": {"location": {"type": "string", "description": "City"}, "unit": {"type": "string", "enum": ["celsius", "fahrenheit"]}, "days": {"type": "integer", "minimum": 1, "maximum": 14}}, "required": ["location"], "additionalProperties": False}, [{"location": "Bonn"}, {"location": "Bonn", "unit": "celsius", "days": 3}, {"unit": "celsius"}, {"location": "Bonn", "days": 15}]
    yield "calendar event", {"type": "object", "properties": {"name": NAME, "date": {"type": "string", "format": "date"}, "participants": {"type": "array", "items": NAME}}, "required": ["name", "date", "participants"], "additionalProperties": False}, [{"name": "a", "date": "2024-05-01", "participants": ["b", "c"]}, {"name": "a", "date": "soon", "participants": []}]
    yield "math steps", {"type": "object", "properties": {"steps": {"type": "array", "items": {"type": "object", "properties": {"explanation": NAME, "output": NAME}, "required": ["explanation", "output"], "additionalProperties": False}}, "final_answer": NAME}, "required": ["steps", "final_answer"], "additionalProperties": False}, [{"steps": [{"explanation": "a", "output": "b"}], "final_answer": "c"}, {"steps": []}]
    yield "sentiment", {"type": "object", "properties": {"label": {"enum": ["positive", "negative", "neutral"]}, "score": {"type": "number", "minimum": 0, "maximum": 1}}, "required": ["label", "score"]}, [{"label": "neutral", "score": 0.5}, {"label": "neutral", "score": 1.5}, {"label": "none", "score": 0}]
    yield "tool call", {"anyOf": [{"type": "object", "properties": {"name": {"const": "search"}, "arguments": {"type": "object", "properties": {"query": NAME}, "required": ["query"]}}, "required": ["name", "arguments"]}, {"type": "object", "properties": {"name": {"const": "now"}, "arguments": {"type": "object", "additionalProperties": False}}, "required": ["name", "arguments"]}]}, [{"name": "search", "arguments": {"query": "x"}}, {"name": "now", "arguments": {}}, {"name": "search", "arguments": {}}, {"name": "other", "arguments": {}}]
    yield "invoice", {"type": "object", "properties": {"number": {"type": "string", "pattern": "^INV-\\d{4}$"}, "total": {"type": "number", "exclusiveMinimum": 0}, "lines": {"type": "array", "minItems": 1, "maxItems": 3, "items": {"type": "object", "properties": {"sku": {"type": "string", "minLength": 1, "maxLength": 8}, "count": {"type": "integer", "minimum": 1}}, "required": ["sku", "count"]}}}, "required": ["number", "lines"]}, [{"number": "INV-0001", "lines": [{"sku": "a", "count": 1}]}, {"number": "INV-1", "lines": []}, {"number": "INV-0001", "total": 9.5, "lines": [{"sku": "a", "count": 0}]}]
    yield "user record", {"type": "object", "properties": {"id": {"type": "string", "format": "uuid"}, "email": {"type": "string", "format": "email", "maxLength": 40}, "created": {"type": "string", "format": "date-time"}, "roles": {"type": "array", "items": {"enum": ["admin", "user"]}}, "parent": {"type": ["string", "null"], "format": "uuid"}}, "required": ["id"]}, [{"id": "123e4567-e89b-12d3-a456-426614174000", "roles": ["user"], "parent": None}, {"id": "1"}]
    yield "file system", {"$defs": {"entry": {"oneOf": [{"type": "object", "properties": {"type": {"const": "file"}, "size": {"type": "integer", "minimum": 0}}, "required": ["type", "size"]}, {"type": "object", "properties": {"type": {"const": "folder"}, "entries": {"type": "object", "additionalProperties": {"$ref": "#/$defs/entry"}}}, "required": ["type", "entries"]}]}}, "$ref": "#/$defs/entry"}, [{"type": "file", "size": 3}, {"type": "folder", "entries": {"a": {"type": "file", "size": 0}}}, {"type": "file"}, {"type": "folder", "entries": {"a": 1}}]
    yield "user interface", {"type": "object", "properties": {"type": {"type": "string", "enum": ["div", "button", "header", "form"]}, "label": NAME, "children": {"type": "array", "items": {"$ref": "#"}}, "attributes": {"type": "array", "items": {"type": "object", "properties": {"name": NAME, "value": NAME}, "additionalProperties": False, "required": ["name", "value"]}}}, "required": ["type", "label", "children", "attributes"], "additionalProperties": False}, [{"type": "div", "label": "", "children": [{"type": "button", "label": "x", "children": [], "attributes": []}], "attributes": [{"name": "a", "value": "b"}]}, {"type": "span", "label": "", "children": [], "attributes": []}]
    yield "geometry", {"type": "object", "properties": {"type": {"const": "Point"}, "coordinates": {"type": "array", "prefixItems": [{"type": "number", "minimum": -180, "maximum": 180}, {"type": "number", "minimum": -90, "maximum": 90}], "items": False, "minItems": 2}}, "required": ["type", "coordinates"]}, [{"type": "Point", "coordinates": [7.1, 50.7]}, {"type": "Point", "coordinates": [7.1]}, {"type": "Point", "coordinates": [181, 0]}]
    yield "chess move", {"type": "object", "properties": {"from": {"type": "string", "pattern": "^[a-h][1-8]$"}, "to": {"type": "string", "pattern": "^[a-h][1-8]$"}, "promotion": {"enum": ["q", "r", "b", "n", None]}}, "required": ["from", "to"]}, [{"from": "e2", "to": "e4"}, {"from": "e7", "to": "e8", "promotion": "q"}, {"from": "e9", "to": "e4"}, {"from": "e2"}]
    yield "translations", {"type": "object", "additionalProperties": {"type": "object", "properties": {"text": NAME, "plural": {"type": "boolean"}}, "required": ["text"]}, "minProperties": 1}, [{"de": {"text": "ja"}}, {"de": {"text": "ja"}, "fr": {"text": "oui", "plural": False}}, {}, {"de": {}}]


def pattern(_, expression, value, __):
    """As ECMA-262 means it: \\w is ASCII, and $ is the end."""
    expression = re.sub(r"(?<!\\)\$", r"\\Z", expression.replace("(?<", "(?P<"))
    if isinstance(value, str) and not re.search(expression, value, re.ASCII):
        yield jsonschema.ValidationError(f"{value!r} does not match {expression!r}")


VALIDATOR = jsonschema.validators.extend(jsonschema.Draft202012Validator, {"pattern": pattern})


def written(value):
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def main():
    if len(sys.argv) != 2 or sys.argv[1].startswith("-"):
        sys.exit(__doc__.strip())
    total = 0
    for family in (kinds, numbers, strings, objects, arrays, combinations, references, applications):
        lines = []
        for name, schema, tried in family():
            validator = VALIDATOR(schema, format_checker=jsonschema.Draft202012Validator.FORMAT_CHECKER)
            case = {"name": name, "schema": schema, "valid": [], "invalid": []}
            for value in tried:
                case["valid" if validator.is_valid(value) else "invalid"].append(written(value))
            lines.append(json.dumps(case, ensure_ascii=False))
        total += len(lines)
        (pathlib.Path(sys.argv[1]) / f"{family.__name__}.json").write_text("[\n" + ",\n".join(lines) + "\n]\n")
    print(f"{total} schemas")


if __name__ == "__main__":
    main()
