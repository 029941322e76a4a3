from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from jsonschema import Draft202012Validator

from proxy.protocol.functions_schema import DEEPEST, ArgumentSchema, SchemaRefused, read_schema

Json = dict[str, Any]
OF_A: Json = {"properties": {"a": {}}}


def schema(*, strict: Any = False, **members: Any) -> ArgumentSchema:
    return read_schema({"type": "object", **members}, strict=strict)


def refused(*, strict: Any = False, **members: Any) -> str:
    with pytest.raises(SchemaRefused) as caught:
        schema(strict=strict, **members)
    return str(caught.value)


def of(**properties: Any) -> ArgumentSchema:
    return schema(properties=properties)


def nested(depth: int) -> Json:
    value: Json = {}
    for _ in range(depth):
        value = {"next": value}
    return value


@pytest.mark.parametrize(
    ("keyword", "rule", "fits", "breaks"),
    [
        ("type", {"type": "integer"}, 1.0, "1"),
        ("enum", {"enum": ["C", 1]}, 1, True),
        ("const", {"const": {"a": 1}}, {"a": 1.0}, {}),
        ("minimum", {"minimum": 3}, 3, 2),
        ("multipleOf", {"multipleOf": 0.5}, 1.5, 0.7),
        ("maxLength", {"maxLength": 2}, "é€", "abc"),
        ("pattern", {"pattern": "^a+$"}, "aaa", "ab"),
        ("pattern", {"pattern": r"^(?!-)\w+$"}, "a-b"[0], "-"),
        ("uniqueItems", {"uniqueItems": True}, [1, True, "1", [1], {"a": 1}], [{"a": 1}, {"a": 1.0}]),
        ("minItems", {"minItems": 1}, [0], []),
        ("contains", {"contains": {"type": "null"}}, [1, None], [1]),
        ("required", {"required": ["a"]}, {"a": 0}, {}),
        ("additionalProperties", {"additionalProperties": False, **OF_A}, {"a": 1}, {"b": 1}),
        ("anyOf", {"anyOf": [{"type": "null"}, {"type": "string"}]}, None, 1),
        ("not", {"not": {"type": "null"}}, 1, None),
        ("propertyNames", {"propertyNames": {"maxLength": 1}}, {"a": 1}, {"ab": 1}),
        ("dependentRequired", {"dependentRequired": {"a": ["b"]}}, {"b": 1}, {"a": 1}),
        ("unevaluatedProperties", {"unevaluatedProperties": False, "allOf": [OF_A]}, {"a": 1}, {"b": 1}),
    ],
)  # fmt: skip
def test_it_checks_each_kind_of_rule(keyword: str, rule: Json, fits: Any, breaks: Any) -> None:
    read = of(x=rule)

    assert read.fault_of({"x": fits}) is None
    assert read.fault_of({"x": breaks}) is not None


def test_it_names_the_keyword_that_was_broken() -> None:
    assert of(city={"type": "string"}).fault_of({"city": 1}) == "type"
    assert schema(required=["city"]).fault_of({}) == "required"
    assert schema(additionalProperties=False).fault_of({"a": 1}) == "additionalProperties"


def test_it_checks_names_by_pattern() -> None:
    read = schema(patternProperties={"^n_": {"type": "integer"}}, additionalProperties=False)

    assert read.fault_of({"n_1": 2}) is None
    assert read.fault_of({"n_1": "2"}) == "type"
    assert read.fault_of({"m_1": 2}) is not None


def test_it_follows_references_within_the_schema() -> None:
    tree = {"type": "object", "properties": {"next": {"$ref": "#/$defs/tree"}}, "additionalProperties": False}
    read = schema(properties={"root": {"$ref": "#/$defs/tree"}}, **{"$defs": {"tree": tree}})

    assert read.fault_of({"root": nested(5)}) is None
    assert read.fault_of({"root": {"next": {"other": 1}}}) is not None


@pytest.mark.parametrize(
    "reference", ["#/$defs/a%20b", "#/$defs/x~1y", "#named", "#", "#/properties/p", "#/allOf/0"]
)
def test_it_finds_a_schema_by_pointer_and_by_anchor(reference: str) -> None:
    read = schema(
        **{"$defs": {"a b": {}, "x/y": {}, "n": {"$anchor": "named"}}},
        properties={"p": {}, "q": {"$ref": reference}},
        allOf=[{}],
    )

    assert read.fault_of({"q": {}}) is None


@pytest.mark.parametrize(
    "reference",
    [
        "http://127.0.0.1/x",
        "file:///etc/passwd",
        "other.json#/a",
        "#/$defs/none",
        "#none",
        "#/properties",
        "",
    ],
)
def test_it_refuses_a_reference_that_leads_out_or_nowhere(reference: str) -> None:
    assert "$ref" in refused(properties={"a": {"$ref": reference}})


@pytest.mark.parametrize(
    "schema_",
    [None, True, [], "x", {}, {"type": "string"}, {"type": ["object"]}, {"properties": {}}],
)
def test_it_wants_the_schema_of_an_object(schema_: Any) -> None:
    with pytest.raises(SchemaRefused):
        read_schema(schema_, strict=False)


@pytest.mark.parametrize(
    "members",
    [
        {"required": "a"},
        {"properties": []},
        {"properties": {"a": {"type": "text"}}},
        {"properties": {"a": {"items": [{}]}}},
        {"properties": {"a": {"minLength": -1}}},
        {"properties": {"a": {"multipleOf": 0}}},
        {"properties": {"a": {"pattern": "("}}},
        {"properties": {"a": {"$ref": 5}}},
        {"properties": {"a": {"minimum": float("nan")}}},
        {"properties": {"a": {"default": float("inf")}}},
        {"properties": {"a\ud800": {}}},
        {"description": "a\0b"},
        {"$id": "https://example.org/a"},
        {"properties": {"a": {"$schema": "http://json-schema.org/draft-04/schema#", "id": "http://a/"}}},
        {"properties": {"a": {"$dynamicRef": "#a"}}},
        {"$defs": {"a": {"$anchor": "x"}, "b": {"$anchor": "x"}}},
    ],
    ids=str,
)
def test_it_refuses_what_is_no_sound_schema(members: Json) -> None:
    assert refused(**members)


def test_it_says_where_the_fault_is_and_repeats_no_strange_words() -> None:
    assert "(at properties.a.type)" in refused(properties={"a": {"type": "text"}})
    assert "<b>" not in refused(properties={"<b>": {"type": "text"}})


def test_it_reads_the_schemas_that_older_tools_write() -> None:
    read = schema(
        **{"$schema": "http://json-schema.org/draft-07/schema#", "definitions": {"a": {"type": "null"}}},
        properties={"x": {"$ref": "#/definitions/a"}},
    )

    assert read.fault_of({"x": 1}) == "type"
    assert "$schema" not in read.schema


def test_it_leaves_data_that_looks_like_a_schema_alone() -> None:
    read = of(x={"const": {"$ref": "http://example.org", "$id": "a"}}, **{"$ref": {"type": "null"}})

    assert read.fault_of({"$ref": None}) is None


@pytest.mark.parametrize(
    "members",
    [
        {},
        {"additionalProperties": False, "properties": {"a": {}}},
        {"additionalProperties": False, "properties": {"a": {"type": "object"}}, "required": ["a"]},
        {"additionalProperties": False, "$defs": {"a": {"properties": {"b": {}}}}},
        {"additionalProperties": False, "$defs": {"a": {"type": ["object", "null"]}}},
        {"additionalProperties": {}},
    ],
    ids=str,
)
def test_it_holds_strict_schemas_to_strictness(members: Json) -> None:
    assert "strict" in refused(strict=True, **members)
    schema(strict=False, **members)


def test_it_takes_a_strict_schema_that_is_one() -> None:
    inner = {"type": ["object", "null"], "properties": {}, "additionalProperties": False}

    schema(strict=True, properties={"a": inner}, required=["a"], additionalProperties=False)


CYCLES: list[Json] = [
    {"$ref": "#"},
    {"$defs": {"a": {"$ref": "#/$defs/b"}, "b": {"anyOf": [{"$ref": "#/$defs/a"}]}}},
    {"$defs": {"a": {"not": {"$ref": "#/$defs/a"}}}},
    {"$defs": {"a": {"dependentSchemas": {"x": {"$ref": "#/$defs/a"}}}}},
]


@pytest.mark.parametrize("members", CYCLES, ids=str)
def test_it_refuses_references_that_lead_back_to_themselves(members: Json) -> None:
    assert "leads back" in refused(**members)


def test_it_bounds_depth_size_and_patterns() -> None:
    deep: Json = {}
    for _ in range(DEEPEST + 1):
        deep = {"properties": {"a": deep}}
    chain = {f"a{at}": {"$ref": f"#/$defs/a{at + 1}"} for at in range(100)} | {"a100": {}}
    assert "deep" in refused(**deep)
    assert "more than 10,000" in refused(properties={f"p{at}": {} for at in range(10_001)})
    assert "chain" in refused(**{"$defs": chain})
    assert "pattern" in refused(properties={"a": {"pattern": "a" * 1001}})
    assert "patterns" in refused(properties={f"p{at}": {"pattern": f"{at}"} for at in range(201)})
    assert "pattern" in refused(properties={"a": {"pattern": "(?:(?:a{1000}){1000}){1000}"}})
    assert "at once" in refused(patternProperties={"a": {}}, unevaluatedProperties=False)


def test_it_bounds_nesting_beyond_what_python_follows() -> None:
    deep: Json = {}
    for _ in range(50_000):
        deep = {"not": deep}
    assert refused(**deep)


LAUGHS: Json = {f"a{at}": {"allOf": [{"$ref": f"#/$defs/a{at + 1}"}] * 2} for at in range(30)} | {"a30": {}}
TWICE: Json = {"anyOf": [{"properties": {"next": {"$ref": "#/$defs/n"}}, "required": ["x"]}] * 2}
EXPENSIVE: list[tuple[str, Json, Json]] = [
    ("laughs", {"$defs": LAUGHS, "$ref": "#/$defs/a0"}, {}),
    ("branches", {"$defs": {"n": TWICE}, "$ref": "#/$defs/n"}, nested(60)),
    ("looking around", {"properties": {"a": {"pattern": "(?=.*a)(.*)*(.*)*c$"}}}, {"a": "ab" * 49_000}),
    ("squares", {"unevaluatedProperties": {}}, {str(at): 0 for at in range(5_000)}),
    ("uniqueness", {"properties": {"a": {"uniqueItems": True}}}, {"a": [[at] for at in range(40_000)]}),
    ("overflow", {"properties": {"a": {"multipleOf": 0.3}}}, {"a": 10**400}),
    ("depth", {"properties": {"next": {"$ref": "#"}}}, nested(900)),
]


@pytest.mark.parametrize(
    ("members", "arguments"), [case[1:] for case in EXPENSIVE], ids=[c[0] for c in EXPENSIVE]
)
def test_it_gives_up_what_would_take_too_long(members: Json, arguments: Json) -> None:
    assert schema(**members).fault_of(arguments) == "budget"


@pytest.mark.parametrize("pattern", ["^(a+)+$", "^(a|a)*$", "^(.*a){20}$", r"^(\w+\s?)*$", "^(?=a)(a+)+$"])
def test_it_is_not_blown_up_by_patterns(pattern: str) -> None:
    assert of(a={"pattern": pattern}).fault_of({"a": "a" * 5_000 + "!"}) in ("pattern", None)


def test_it_checks_a_large_enumeration_and_a_wide_object() -> None:
    names = [f"name{at}" for at in range(5_000)]

    assert of(a={"enum": names}).fault_of({"a": "name4999"}) is None
    wide = schema(properties={name: {"type": "string"} for name in names[:2000]})
    assert wide.fault_of(dict.fromkeys(names[:2000], "x")) is None


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-3, 3) | st.sampled_from(["", "a", "ab", "b"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from("abc"), inner, max_size=3),
    max_leaves=6,
)
PLAIN: list[Any] = [
    *({}, True, False, {"type": "string"}, {"type": ["integer", "null"]}, {"pattern": "^a"}),
    *({"minimum": 0}, {"uniqueItems": True}, {"enum": [1, "a", None]}, {"required": ["a"]}),
]


def rules(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    named = st.dictionaries(st.sampled_from("abc"), inner, max_size=2)
    matched = st.dictionaries(st.sampled_from(["a", "^b"]), inner, max_size=2)
    return st.one_of(
        st.fixed_dictionaries({"anyOf": st.lists(inner, min_size=1, max_size=2)}),
        st.fixed_dictionaries({"items": inner}),
        st.fixed_dictionaries({"not": inner}),
        st.fixed_dictionaries({"properties": named, "additionalProperties": inner}),
        st.fixed_dictionaries({"patternProperties": matched, "additionalProperties": inner}),
    )


RULES = st.recursive(st.sampled_from(PLAIN), rules, max_leaves=5)


@given(RULES, VALUES)
def test_it_judges_as_the_library_does_without_a_budget(rule: Any, value: Any) -> None:
    plain = Draft202012Validator({"properties": {"x": rule}}).is_valid({"x": value})

    assert (of(x=rule).fault_of({"x": value}) is None) == plain


WORDS = ["type", "properties", "items", "$ref", "$defs", "allOf", "required", "pattern", "enum", "a"]
ANYTHING = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.sampled_from(WORDS), inner),
)


@given(ANYTHING)
def test_it_takes_or_refuses_any_json(value: Any) -> None:
    members = value if isinstance(value, dict) else {"properties": value}
    try:
        read = read_schema({**members, "type": "object"}, strict=False)
    except SchemaRefused:
        return
    json.dumps(dict(read.schema))
    read.fault_of({"a": 1, "type": []})
