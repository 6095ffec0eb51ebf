# ruff: noqa: E501, FBT001  cases in one line read as a table; expectations are booleans
"""Selectors as the scheduler evaluates them."""

import subprocess
import sys
from dataclasses import replace
from fractions import Fraction

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from dra_shim.cel import MAX_EXPRESSION, SelectorError, compile_selector, names_in
from dra_shim.cel.environment import for_library
from dra_shim.cel.values import compare, parse_amount, quantity, semver, show_amount
from dra_shim.resourceapi import Capacity, SliceDevice
from tests.dra_shim.scheduling.nic_slice_device import NIC

DOCUMENTED = [
    ('device.driver == "dra.net"', True),
    ('device.attributes["resource.kubernetes.io"]["pciBusID"] in '
     '["0001:00:00.0", "0002:00:00.0", "0003:00:00.0", "0008:00:00.0"]', True),
    ('device.attributes["dra.net"]["rdma"] == true && device.attributes["dra.net"]["numaNode"] == 0',
     True),
    ('device.attributes["dra.net"]["rdma"] == true && device.attributes["dra.net"]["numaNode"] == 1',
     False),
    ('device.attributes["dra.net"].rdma == true', True),
    ('device.driver == "gpu.nvidia.com" && device.attributes["gpu.nvidia.com"].index <= 2', False),
]  # fmt: skip
IN_USE = [
    ('device.attributes["dra.net"].ifName == "eth1"', True),
    ('device.attributes["dra.net"].ifName.startsWith("gpu")', False),
    ('device.attributes["dra.net"].virtual', False),
    ('!device.attributes["dra.net"].virtual && device.attributes["dra.net"].type != "veth"', True),
    ('device.attributes["dra.net"].rdmaDevice.matches("^mlx5_[0-3]$")', True),
    ('device.attributes["dra.net"].pciDevice.contains("ConnectX-7")', True),
    ('"gce.dra.net" in device.attributes && '
     'device.attributes["gce.dra.net"].networkName == "rdma-0"', True),
    ('device.attributes["oke.dra.net"].localBlockId == "abc"', True),
    ('has(device.attributes["dra.net"].isSriovVf) && device.attributes["dra.net"].isSriovVf', False),
    ('device.attributes["dra.net"].?isSriovVf.orValue(false)', False),
]  # fmt: skip
SEMANTICS = [
    pytest.param('"x.com" in device.attributes', False, id="unknown-domain-is-not-in-the-map"),
    pytest.param('device.attributes["x.com"].size() == 0', True, id="but-reads-as-an-empty-map"),
    pytest.param("!has(device.attributes['x.com'].id)", True, id="has-of-an-unknown-domain"),
    pytest.param('"id" in device . attributes [ "x.com" ]', False, id="spaces-are-ignored"),
    pytest.param('device.attributes[?"x.com"].?id.hasValue()', False, id="optional-as-written"),
    pytest.param('device.attributes[device.driver + "x"].size() == 0 // []', True, id="computed"),
    pytest.param('device.capacity["x.com"].size() == 0', True, id="capacity-too"),
    pytest.param('{"a": [1]}["a"][0] == 1', True, id="other-brackets-stay"),
    pytest.param("r'device.attributes[\"x\"]' != '''device.attributes[\"x\"]'''", False,
                 id="strings-stay"),
    pytest.param('device.attributes["dra.net"].bare == "x"', True, id="bare-names-are-the-drivers"),
    pytest.param('false && device.attributes["dra.net"].missing', False, id="absorbed-by-and"),
    pytest.param('device.attributes["dra.net"].missing || true', True, id="absorbed-by-or"),
    pytest.param('device.attributes["dra.net"].numaNode == 0.0', True, id="numbers-across-types"),
    pytest.param('cel.bind(nic, device.attributes["dra.net"], nic.rdma && nic.numaNode < 1)', True,
                 id="bind"),
    pytest.param('device.attributes["dra.net"].exists(k, v, k == "numaNode" && v == 0)', True,
                 id="two-variables"),
    pytest.param('"A,b".lowerAscii().split(",").size() == 2 && "%s".format(["a"]) == "a"', True,
                 id="strings"),
    pytest.param("sets.contains([1, 2], [2]) && [3, 1].sort() == [1, 3]", True, id="sets-lists"),
    pytest.param("[1, 2].sum() == 3 && [1, 2].min() == 1 && [1, 2].max() == 2 && [1, 2].isSorted()",
                 True, id="list-functions"),
    pytest.param('"eth10".find("[0-9]+") == "10" && "x".find("y") == "" && '
                 '"a1b2".findAll("[0-9]") == ["1", "2"]', True, id="regular-expressions"),
    pytest.param('device.driver.matches("(" + "dra" + ")") && device.driver.find("[" + "d]") == "d"',
                 True, id="composed-pattern"),
    pytest.param('"a1b2".find("[[:alpha:]]") == "a" && "a1b2".findAll("[[:^alpha:]]") == ["1", "2"] && '
                 '"a1b2".matches("[[:alnum:]]+")', True, id="posix-classes"),
    pytest.param(r'"é٣".find(r"\pL") == "é" && "é٣".find(r"[\d\w]") == "" && "a\n".find("a$") == ""',
                 True, id="meaning-of-classes-and-ends"),
    pytest.param('"mlx5_12".find("(mlx)([0-9])_(?:1)") == "mlx5_1" && '
                 '"mlx5_12".findAll("(?P<n>[0-9])|(?<m>m)") == ["m", "5", "1", "2"]', True,
                 id="matches-of-groups-are-whole"),
    pytest.param(r'"a(b)".find("\\(b\\)") == "(b)" && "a(b".find("[(]b") == "(b" && '
                 r'"x(y)".find(r"\Q(y)\E") == "(y)" && "](".find("[](]+") == "](" && "?z(".find("[[:alpha:](]+") == "z(" && '
                 r'"(z".find(r"[\(]z") == "(z"', True, id="parentheses-that-are-text"),
    pytest.param(f'"{"a" * 60}!".find("(a+)+$") == ""', True, id="linear-time"),
    pytest.param('"a1b2".findAll("[a-z]", 1) == ["a"] && matches("a", "(" + "a)")', True,
                 id="pattern-and-limit"),
    pytest.param('device.allowMultipleAllocations', False, id="not-shared"),
    # formats
    pytest.param('!format.dns1123Label().validate(device.driver.find("^dra")).hasValue() && '
                 'format.named("dns1123Label").value().validate("A").value()[0].contains("dns1123Label")',
                 True, id="format"),
    pytest.param('format.named("x") == optional.none() && format.named("uri").hasValue() && '
                 'format.named("x").orValue(format.uuid()).validate(("a")).orValue([]).size() == 1',
                 True, id="optional-format"),
    # versions
    pytest.param('device.attributes["dra.net"].firmware == semver("22.39.1002-rc.1")', True,
                 id="build-plays-no-part"),
    pytest.param('device.attributes["dra.net"].firmware.isLessThan(semver("22.39.1002"))', True,
                 id="prerelease-comes-first"),
    pytest.param('device.attributes["dra.net"].firmware.compareTo(semver("v22.9", true)) > 0', True,
                 id="normalized"),
    pytest.param('semver("1.2.3-2").isLessThan(semver("1.2.3-a")) && '
                 'semver("1.2.3-a").isLessThan(semver("1.2.3-a.1")) && '
                 'semver("1.2.3-2").isLessThan(semver("1.2.3-10"))', True, id="prerelease-order"),
    pytest.param('semver("1.2.3").major() + semver("1.2.3").minor() + semver("1.2.3").patch() == 6',
                 True, id="parts"),
    pytest.param('isSemver("1.2.3") && !isSemver("1.2") && isSemver("v01.2.00-rc", true) && '
                 '!isSemver("1.2.3.4", true) && !isSemver("1.2-rc", true) && !isSemver("v", true)', True,
                 id="is-semver"),
    # quantities
    pytest.param('quantity("1Gi") == quantity("1024Mi") && quantity("1.5") == quantity("1500m")',
                 True, id="equal-amounts"),
    pytest.param('quantity("10k").isGreaterThan(quantity("9.9e3")) && sign(quantity("1.")) == 1 && '
                 'sign(quantity("-1")) == -1 && sign(quantity("0")) == 0', True, id="order"),
    pytest.param('quantity("1").add(2).sub(1).add(quantity("1")).sub(quantity("2")).asInteger() == 1',
                 True, id="sums"),
    pytest.param('quantity("500m").asApproximateFloat() == 0.5 && !quantity("500m").isInteger()',
                 True, id="fractions"),
    pytest.param('quantity("3G").asInteger() > 1e9 && quantity("1.5").asApproximateFloat() >= 1',
                 True, id="amounts-across-types"),
    pytest.param('isQuantity("1n") && !isQuantity("1x")', True, id="is-quantity"),
]  # fmt: skip


@pytest.mark.parametrize(("expression", "expected"), DOCUMENTED + IN_USE)
def test_common_selectors_are_evaluated(expression: str, expected: bool) -> None:
    assert compile_selector(expression).matches(NIC) is expected


@pytest.mark.parametrize(("expression", "expected"), SEMANTICS)
def test_cel_environment_matches_kubernetes(expression: str, expected: bool) -> None:
    assert compile_selector(expression).matches(NIC) is expected


def test_unqualified_name_of_another_drivers_device_belongs_to_that_driver() -> None:
    gpu = SliceDevice("gpu.nvidia.com", "node", "gpu-0", (("index", 1),))
    selector = compile_selector(
        'device.driver == "gpu.nvidia.com" && device.attributes["gpu.nvidia.com"].index < 2'
    )

    assert selector.matches(gpu)
    assert not selector.matches(replace(gpu, driver="dra.net"))


def test_qualified_attribute_name_takes_precedence_over_the_unqualified_name() -> None:
    gpu = SliceDevice("g.x", "node", "gpu-0", (("g.x/index", 1), ("index", 2)))

    assert compile_selector('device.attributes["g.x"].index == 1').matches(gpu)
    assert compile_selector('device.attributes["g.x"].index == 1').matches(
        replace(gpu, attributes=gpu.attributes[::-1])
    )


def test_capacity_is_a_quantity_in_the_drivers_domain() -> None:
    gpu = SliceDevice(
        "g.x", "node", "gpu-0", (), (Capacity("memory", Fraction(80 << 30)),), shared=True
    )  # fmt: skip
    selector = compile_selector(
        'device.capacity["g.x"].memory.compareTo(quantity("80Gi")) == 0 '
        "&& device.allowMultipleAllocations"
    )

    assert selector.matches(gpu)
    assert not selector.matches(replace(gpu, shared=False))


@pytest.mark.parametrize(
    ("expression", "names"),
    [
        ("true", ()),
        ("device.driver == 'x' && device . driver != 'y'", (("driver", ""),)),
        ("device.allowMultipleAllocations", (("allowMultipleAllocations", ""),)),
        ('device.attributes["a.b"].x == 1 || device.attributes[\'a.b\']["y"] == 2', (("attributes", "a.b/x"), ("attributes", "a.b/y"))),
        ('device.attributes["a"].?x.orValue(1) == 1', (("attributes", "a/x"),)),
        ('device.attributes["a"].name.startsWith("n")', (("attributes", "a/name"),)),
        ("sign(device.capacity['g']['memory']) > 0", (("capacity", "g/memory"),)),
        ('"x" in device.attributes["a"]', ()),
    ],
)  # fmt: skip
def test_names_used_by_an_expression_are_found(
    expression: str, names: tuple[tuple[str, str], ...]
) -> None:
    assert names_in(expression) == names


@pytest.mark.parametrize(
    ("text", "shown"),
    [("0", "0"), ("10Gi", "10Gi"), ("1024Mi", "1Gi"), ("10G", "10G"), ("1500", "1500"),
     ("1.5", "1500m"), ("1e-12", "1e-12"), ("250m", "250m"), ("1.25e-12", "1.25e-12"), ("-1.5", "-1500m"),
     pytest.param("9" * 400, "9" * 400, id="400-digits"),
     pytest.param("9" * 400 + ".00000000001", "1e+400", id="400-digits-and-a-rest")],
)  # fmt: skip
def test_amount_is_shown_in_its_shortest_exact_form(text: str, shown: str) -> None:
    assert show_amount(parse_amount(text)) == shown


@pytest.mark.parametrize(
    ("expression", "reason"),
    [
        ("sign(device.capacity['dra.net'].lanes) > 0", 'the device has no "lanes"; guard it: "lanes" in device.capacity["..."] && ...'),
        ("device.attributes['dra.net'].index < 2", 'on device pci-0000-8a-00-0: the device has no "index"; guard it: "index" in'),
        ("device.attributes['gpu.nvidia.com'].index < 2", 'the device has no "index"'),
        ("device.attributes['dra.net'].ifname == 'eth1'", 'the device has no "ifname" (did you mean "ifName"?); guard it: "ifname" in'),
        ("device.attributes['dra.net/rdma'].BoolValue", "attributes['dra.net/rdma'] is in the language of --filter; write device.attributes[\"dra.net\"].rdma"),
        ("device.attributes['dra.net'].ifName < 3", "No matching overloads found"),
        ("device.attributes['dra.net'].ifName", "gives 'eth1'; it must give true or false"),
        ("1 / 0 == 1", "divide by zero"),
        ("{1: 1, 1: 2}.size() == 1", "duplicate key in map"),
        ("sign(quantity('x')) == 0", '"x" is not a quantity such as 10Gi'),
        ("sign(quantity('1e999')) == 0", "is not a quantity"),
        ("semver('1.2').major() == 0", '"1.2" is not a semantic version'),
        ("semver('1.2.3').compareTo(quantity('1')) == 0", "only two quantities or two versions can be compared"),
        ("quantity('1.5').asInteger() == 1", "1.5 is not a whole number"),
        (f"quantity('{'9' * 400}.5').asInteger() == 1", "1e+400 is not a whole number"),
        (f"quantity('{'9' * 400}').asApproximateFloat() == 1.0", "too large for a float"),
        (f"sign(quantity('{'9' * 5000}')) == 1", "is not a quantity such as 10Gi"),
        ("sign(semver('1.2.3')) == 1", "the value is not a quantity"),
        ("quantity('1').major() == 1", "the value is not a semver"),
        ("semver('1.2.3').validate('x').hasValue()", "the value is not a format"),
        ("'x'.find('(' + 'x') == ''", '"(x" is not a regular expression of RE2; correct it'),
        ("'x'.findAll('(' + 'x').size() == 0", '"(x" is not a regular expression of RE2'),
        ("{'a': 'b'}.compareTo({'a': 'b'}) == 0", "only two quantities"),
    ],
)  # fmt: skip
def test_selector_that_fails_on_a_device_raises_an_error_with_the_reason(
    expression: str, reason: str
) -> None:
    with pytest.raises(SelectorError) as caught:
        compile_selector(expression).matches(NIC)

    assert reason in caught.value.reason
    assert caught.value.expression == expression


@pytest.mark.parametrize(
    ("expression", "reason"),
    [
        ("1 +", "line 1 column 4: Syntax error"),
        ("true and true", "; write && in place of and"),
        ("true\nOR true", "; write || in place of OR"),
        ("not true", "; write ! in place of not"),
        ("device.driver = 'a and b'", "; write == in place of ="),
        ("device.atributes['x']", "line 1 column 7: undeclared reference to 'device.atributes'"),
        ("\n a || b", "line 2 column 2: undeclared reference to 'a'; line 2 column 7: undeclared"),
        ("device.driver", "gives string; it must give true or false"),
        ("quantity(1) == 1", "no matching overload for 'quantity'"),
        ("quantity('1').sign() == 1", "undeclared reference to 'sign'"),
        ("format.cidr().validate('a').hasValue()", "undeclared reference to 'cidr'"),
        ("device.driver.matches('(')", "'(' is not a regular expression of RE2: "),
        (r"device.driver . matches (r'\K')", r"r'\K' is not a regular expression of RE2"),
        ("matches(device.driver + ('a'), '[')", "'[' is not a regular expression of RE2"),
        ("true || device.driver.find('a{2,1}') == ''", "'a{2,1}' is not a regular expression"),
        ("device.driver.findAll('*a', 1).size() > 0", "'*a' is not a regular expression"),
        ("device.capacity['x.y'].memory >= 10", "applied to '(map(string, dyn), int)'; map(string, dyn) is a quantity, a version or an address; compare it with another one"),
        ("device.capacity['x.y'].?memory.orValue(quantity('0')) == '10G'", "applied to '(map(string, dyn), string)'"),
        ("x" * (MAX_EXPRESSION + 1), "is longer than 10240 bytes"),
        ("]", "Syntax error"),
    ],
)  # fmt: skip
def test_expression_that_cannot_be_compiled_is_refused_with_its_position(
    expression: str, reason: str
) -> None:
    with pytest.raises(SelectorError) as caught:
        compile_selector(expression)

    assert reason in str(caught.value)


def test_compile_error_without_a_position_has_the_reason_of_the_library() -> None:
    with pytest.raises(SelectorError) as caught:
        compile_selector("(" * 3000 + "true" + ")" * 3000)

    assert caught.value.reason


@given(st.text(alphabet="device.attributes[]?'\"\\r {}x()|&=1\n/", max_size=60))
@example("device.attributes['x'].y")
@example("'''")
def test_any_text_compiles_or_is_refused(text: str) -> None:
    try:
        compile_selector(text)
    except SelectorError as error:
        assert error.reason  # noqa: PT017 both outcomes are fine


def test_an_expression_with_a_lone_surrogate_is_refused() -> None:
    with pytest.raises(SelectorError, match="lone surrogate"):
        compile_selector("true || '\ud800' == ''")


def test_lookup_that_does_not_begin_with_device_is_not_rewritten() -> None:
    assert for_library("x.device.attributes['a']") == "x.device.attributes['a']"
    assert for_library("device.attributes['a']") == "device.attributes[?'a'].orValue({})"


def test_only_functions_of_formats_become_optional() -> None:
    assert for_library("format.named('a')") == "format.named('a')[?0]"
    assert for_library("x.validate(('a'))") == "x.validate(('a'))[?0]"
    assert for_library("named(validate(('a')))") == "named(validate(('a')))"


@pytest.mark.parametrize(
    ("work", "loaded"),
    [
        ("import dra_shim.daemon.wiring", set()),
        ("from dra_shim.discovery import DeviceSelection; DeviceSelection().check()", set()),
        (
            "from dra_shim.discovery import DeviceSelection; DeviceSelection('true').check()",
            {"cel_expr_python"},
        ),
        ("from dra_shim.resourceapi import parse_manifests; parse_manifests('')", {"yaml"}),
    ],
)
def test_large_module_is_imported_only_where_it_is_used(work: str, loaded: set[str]) -> None:
    large = "{'cel_expr_python', 'lightkube', 'yaml'}"
    program = f"import sys; {work}; print(sorted({large} & sys.modules.keys()))"

    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )

    assert done.stdout == f"{sorted(loaded)}\n"


# --------------------------------------------------------------------------- values


@given(st.fractions(max_denominator=1000, min_value=0), st.sampled_from(["", "k", "Ki", "m"]))
def test_quantities_compare_exactly(amount: object, suffix: str) -> None:
    text = f"{float(str_to_number(amount)):.6f}{suffix}"

    assert compare(quantity(text), quantity(text)) == 0
    assert compare(quantity(text), quantity(f"1{text}")) == -1


def str_to_number(amount: object) -> float:
    numerator, _, denominator = str(amount).partition("/")
    return int(numerator) % 10**6 / int(denominator or 1)


@pytest.mark.parametrize("text", ["", "1.2", "01.2.3", "1.2.3-", "1.2.3-01", "a.b.c", "1.2.3+"])
def test_string_that_semver_org_forbids_is_not_a_version(text: str) -> None:
    with pytest.raises(ValueError, match="not a semantic version"):
        semver(text)
