from tools.gpu_tests import counts

REPORT = """<testsuites><testsuite name="pytest" errors="1" failures="2" skipped="3" tests="10"
time="12.34"><testcase name="a"><skipped message="no GPU"/></testcase><testcase name="b">
<skipped message="no GPU"/></testcase><testcase name="c"><skipped message="slow"/></testcase>
</testsuite></testsuites>"""


def test_errors_count_as_failures_and_reasons_are_kept() -> None:
    assert counts(REPORT) == {
        "passed": 4,
        "failed": 3,
        "skipped": 3,
        "why_skipped": {"no GPU": 2, "slow": 1},
        "seconds": 12.3,
    }
