# SPDX-License-Identifier: MIT
"""Times of frames as Python, pandas, numpy and Micro-Manager write them, in every layout of a table, against Python's
own reading of them."""
import os
import pathlib
import random
import subprocess
import tempfile
import unittest
from datetime import datetime, timedelta, timezone
from decimal import Decimal

UTC = timezone.utc
ROWS = 40


def ns_of(when: datetime, below_us: int = 0) -> int:
    if when.tzinfo is None:
        when = when.replace(tzinfo=UTC)
    since = when - datetime(1970, 1, 1, tzinfo=UTC)
    return (since.days * 86400 + since.seconds) * 10**9 + since.microseconds * 1000 + below_us


def in_python(text: str) -> int:
    """As Python reads ISO 8601; it knows no days of the year."""
    return ns_of(datetime.fromisoformat(text))


class Draw(random.Random):
    def moment(self, whole: bool = False) -> datetime:
        fraction = 0 if whole else self.choice([self.randrange(10**6), 1000 * self.randrange(1000), 0])
        return datetime(1970, 1, 1) + timedelta(self.randrange(40000), self.randrange(86400), fraction)

    def zone(self) -> timezone:
        return timezone(timedelta(minutes=self.choice([0, 60, -480, 330, 345, -150, self.randrange(-1439, 1440)])))

    def there(self, whole: bool = False) -> datetime:
        return self.moment(whole).replace(tzinfo=self.zone())


def offset(when: datetime, colon: bool) -> str:
    text = when.strftime("%z")
    return f"{text[:3]}:{text[3:]}" if colon else text


# Name: (text, expected ns) of a draw. Texts with a blank and without; with a decimal point, with none.
def iso_by_python(form):
    def draw(r):
        text = form(r)
        return text, in_python(text)
    return draw


def by_number(form):
    def draw(r):
        text = form(ns_of(r.moment()))
        return text, int(Decimal(text) * 10**9)
    return draw


def of_pandas(r):
    when, below = r.there(), r.randrange(1000)
    return f"{when:%Y-%m-%d %H:%M:%S}.{when.microsecond * 1000 + below:09d}{offset(when, True)}", ns_of(when, below)


def of_numpy(r):
    when, below = r.moment(), r.randrange(1000)
    return f"{when:%Y-%m-%dT%H:%M:%S}.{when.microsecond * 1000 + below:09d}", ns_of(when, below)


def of_micromanager(r):
    when = r.there()
    when = when.replace(microsecond=when.microsecond // 1000 * 1000)
    return f"{when:%Y-%m-%d %H:%M:%S}.{when.microsecond // 1000:03d} {offset(when, False)}", ns_of(when)


def of_day_of_year(r):
    when = r.there(True)
    text = f"{when:%Y-%jT%H:%M:%S}{offset(when, True)}"
    return text, ns_of(datetime.strptime(text, "%Y-%jT%H:%M:%S%z"))


POINTS = {
    "str(datetime)": iso_by_python(lambda r: str(r.moment())),
    "str(datetime) with an offset": iso_by_python(lambda r: str(r.there())),
    "isoformat": iso_by_python(lambda r: r.there().isoformat()),
    "isoformat to the ms": iso_by_python(lambda r: r.there().isoformat(timespec="milliseconds")),
    "isoformat to the minute": iso_by_python(lambda r: r.there().isoformat(timespec="minutes")),
    "isoformat to the hour": iso_by_python(lambda r: r.there().isoformat(timespec="hours")),
    "Z": iso_by_python(lambda r: r.moment().isoformat() + "Z"),
    "basic": iso_by_python(lambda r: r.there().strftime("%Y%m%dT%H%M%S.%f%z")),
    "basic without decimals": iso_by_python(lambda r: r.there(True).strftime("%Y%m%dT%H%M%S%z")),
    "weeks": iso_by_python(lambda r: r.there().strftime("%G-W%V-%uT%H:%M:%S.%f%z")),
    "weeks, basic": iso_by_python(lambda r: r.there().strftime("%GW%V%uT%H%M%S")),
    "days of the year": of_day_of_year,
    "pandas": of_pandas,
    "numpy": of_numpy,
    "Micro-Manager": of_micromanager,
    "seconds": by_number(lambda ns: f"{Decimal(ns) / 10**9}"),
    "repr(float)": by_number(lambda ns: repr(ns / 1e9)),
    "numpy.savetxt": by_number(lambda ns: f"{ns / 1e9:.18e}"),
}
COMMAS = ["isoformat to the ms", "Z", "basic", "pandas", "numpy", "Micro-Manager", "weeks"]

# Name: (a line of a text, its column, the heading or ""). {} is the text.
LAYOUTS = {
    "alone": ("{}", 1, ""),
    "CSV": ("{n},{},x", 2, ""),
    "CSV with numbers behind and a heading": ("{n},{},{n}", 2, "frame,time,index"),
    "CSV in quotes": ('{n},"{}",{n}', 2, ""),
    "semicolons": ("{n};{};{n}", 2, "frame;time;index"),
    "tabs": ("{n}\t{}\t{n}", 2, ""),
    "blanks": ("{n}   {} x", 2, "frame time name"),
}


class Times(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="driftd-times-")
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)

    def read(self, lines: list[str], column: int, comma: bool | str = False) -> list[int]:
        """`comma` is "no": each ends a column."""
        file = self.folder / "times.txt"
        file.write_text("\n".join(lines) + "\n", encoding="utf-8")
        done = subprocess.run([os.environ["TIMES_OF"], file, str(column), "s", comma if isinstance(comma, str) else str(int(comma))],
                              capture_output=True, text=True, timeout=60)
        self.assertEqual(done.stderr, "", lines[:2])
        return [int(line) for line in done.stdout.split()]

    def compare(self, name: str, layout: str, draws: list, comma: bool = False):
        line, column, heading = LAYOUTS[layout]
        lines = [heading] if heading else []
        lines += [line.replace("{n}", str(n)).replace("{}", text) for n, (text, _) in enumerate(draws)]
        told = self.read(lines, column, comma)
        self.assertEqual(len(told), len(draws))
        for (text, expected), ns in zip(draws, told):
            self.assertEqual(ns, expected, f"{name}, {layout}: {text!r}")

    def test_each_form_in_each_layout(self):
        draw = Draw(11)
        for name, form in POINTS.items():
            for layout in LAYOUTS:
                self.compare(name, layout, [form(draw) for _ in range(ROWS)])

    def test_decimal_commas(self):
        draw = Draw(12)
        for name in COMMAS:
            for layout in LAYOUTS:
                if layout == "CSV with numbers behind and a heading":
                    continue  # of four fields below three names nobody knows which
                draws = [(text.replace(".", ","), ns) for text, ns in (POINTS[name](draw) for _ in range(ROWS))]
                self.compare(name, layout, draws)

    def test_numbers_with_decimal_commas(self):
        draw = Draw(13)
        draws = [(text.replace(".", ","), ns) for text, ns in (POINTS["seconds"](draw) for _ in range(ROWS))]
        for layout in "semicolons", "tabs", "CSV in quotes":
            self.compare("seconds", layout, draws)
        for layout in "alone", "blanks":
            self.compare("seconds", layout, draws, comma=True)

    def refused(self, lines, column: int = 1, comma: bool = False) -> str:
        file = self.folder / "times.txt"
        file.write_text("\n".join(lines) + "\n", encoding="utf-8")
        done = subprocess.run([os.environ["TIMES_OF"], file, str(column), "s", str(int(comma))], capture_output=True,
                              text=True, timeout=60)
        self.assertEqual((done.returncode, done.stdout), (1, ""), lines)
        return done.stderr

    def test_hours_of_one_digit(self):
        expected = in_python("2026-11-28T09:50:46.590")
        for text in ("2026-11-28 9:50:46.59", "2026-11-28,9:50:46.59", "2026-11-28\t9:50:46.59",
                     "2026-11-28;9:50:46,59",
                     "2026-11-28 9:50:46,59", "2026-332 9:50:46.59", "2026-W48-6 09:50:46.59", "20261128 9:50:46.59"):
            self.assertEqual(self.read([text], 1), [expected], text)
        self.assertEqual(self.read(["2026-11-28 21"], 1), [in_python("2026-11-28T21:00")])

    def test_what_stands_behind_a_date_is_never_dropped(self):
        for separator in " ", ",", ";", "\t":
            for time in ("21.50.46", "21-50-46", "21.50", "21-05", "9:50:46.59 PM", "9:50:46.59,PM", "9:5:46",
                         "25:50:46"):
                self.refused([f"2026-11-28{separator}{time}"])
        self.refused(["2026-11-28,x,21:50:46"])
        self.refused(["2026-11-28 T21:50:46"])
        for behind in "T21:50:46", "(21:50:46)", ".5":
            self.refused([f"2026-11-28,{behind}"])
        for time in "9:50:46 -0800", "9:50:46Z":
            self.refused([f"2026-11-28 {time} PM"])

    def test_zones_that_are_no_offsets_are_refused(self):
        for zone in ("AM", "PM", "p.m.", "CET", "EST", "UTC+1", "GMT-8", "+1", "-8", "Europe/Berlin", "\u22128",
                     "(CET)"):
            for text in "2026-11-28 09:50:46.59", "2026-11-28T09:50:46", "2026-11-28 09:50:46,59":
                self.refused([f"{text} {zone}"])
                self.refused([f"{text} {zone}"], comma=True)
            if zone != "(CET)":
                for separator in ",", ";", "\t":
                    self.refused([f"2026-11-28 09:50:46.59{separator}{zone}{separator}7"])
        self.assertIn("-08:00", self.refused(["2026-11-28 09:50:46.59 CET"]))
        self.refused(["date time zone", "2026-11-28 09:50:46.59 CET"])
        self.refused(["time,zone", "2026-11-28 09:50:46.59,CET"])

    def test_an_offset_in_a_column_of_its_own(self):
        expected = in_python("2026-11-28T21:50:46.590-08:00")
        for text in ("2026-11-28 21:50:46.59,-0800", "2026-11-28 21:50:46.59;-08:00;7", "2026-11-28,21:50:46.59,-08:00",
                     "2026-11-28T21:50:46,59,-0800"):
            self.assertEqual(self.read([text], 1), [expected], text)
        self.assertEqual(self.read(["time,offset", "2026-11-28 21:50:46.59,-08"], 1), [expected])
        for text in "-08", "-1200", "-5":
            said = self.refused([f"2026-11-28 21:50:46.59,{text}"])
            self.assertIn("line of headings", said)
            self.assertEqual("is no offset" in said, text == "-5")
        for heading in "time,utc_offset", "time,Time Zone", "time,TZ":
            self.assertEqual(self.read([heading, "2026-11-28 21:50:46.59,-08"], 1), [expected], heading)
            for text in "Berlin", "MSK", "1", "+1.0", "01:00":
                self.refused([heading, f"2026-11-28 21:50:46.59,{text}"])

    def test_other_columns_behind_a_date(self):
        expected = in_python("2026-11-28T21:50:46.590")
        for lines in (["2026-11-28 21:50:46.59 12"], ["2026-11-28 21:50:46.59 -5.3"], ["2026-11-28,21:50:46.59,12"],
                      ["2026-11-28,21:50:46.59,2026-11-29"],
                      ["2026-11-28 21:50:46.59,TTL"], ["2026-11-28 21:50:46.59,"],
                      ["2026-11-28 21:50:46.59,-5.3,488nm"],
                      ["time,dx", "2026-11-28 21:50:46.59,-0800"], ["time,offset_nm", "2026-11-28 21:50:46.59,+12"],
                      ["time,z offset (nm)", "2026-11-28 21:50:46.59,-0120"], ["time,ozone", "2026-11-28 21:50:46.59,-10"],
                      ["date time dx", "2026-11-28 21:50:46.59 -12"], ["time,axis", "2026-11-28 21:50:46.59,-8"],
                      ["date time channel", "2026-11-28 21:50:46.59 trigger"],
                      ["time\tside", "2026-11-28 21:50:46.59\tLEFT"]):
            self.assertEqual(self.read(lines, 1), [expected], lines)

    def test_fractions_are_never_dropped(self):
        for behind in "trigger", "1", "CET", "PM":
            self.assertIn("--decimal-comma", self.refused([f"2026-11-28 21:50:46,59 {behind}"]))
        self.assertEqual(self.read(["2026-11-28 21:50:46,59 1"], 1, True), [in_python("2026-11-28T21:50:46.590")])
        self.assertEqual(self.read(["2026-11-28t21:50:46,59"], 1), [in_python("2026-11-28T21:50:46.590")])
        self.refused(["2026-11-28T21:50,5"])
        self.assertEqual(self.read(["2026-11-28T21:50:46Z,59"], 1), [in_python("2026-11-28T21:50:46")])
        self.assertEqual(self.read(["2026-11-28,21:50:45.5,16", "2026-11-28,21:50:46,17"], 1)[1],
                         in_python("2026-11-28T21:50:46"))
        for line, column in (("1002,19,0", 1), ("0, 1002,19", 2), ("0,1002,19", 2), ("0,1002,19,7", 2),
                             ("0,1002,19 trigger", 2)):
            self.assertIn("--decimal-comma", self.refused([line], column))
        self.assertIn("--decimal-comma", self.refused(["frame,time", "0,1002,19"], 2))
        self.assertEqual(self.read(["0, 1002,19"], 2, True), [1002190000000])
        self.assertEqual(self.read(["0,1002,19", "1,1202,7"], 2, "no"), [1002 * 10**9, 1202 * 10**9])
        self.assertEqual(self.read(["2026-11-28 21:50:46,59"], 1, "no"), [in_python("2026-11-28T21:50:46")])
        self.assertIn("--no-decimal-comma", self.refused(["0,1002,19"], 2))
        for lines in (["frame,time,index", "0,1002,19"], ["0, 1002, 19"], ["0,1002,x"], ["0,1002"],
                      ["0,1002,2026-11-29"], ["0,1002,2026-11-29 21:50:46"]):
            self.assertEqual(self.read(lines, 2), [1002 * 10**9], lines)
        self.assertEqual(self.read(["0,1002.5,19", "1,1003,20"], 2), [1002500000000, 1003 * 10**9])

    def test_a_heading_is_no_value(self):
        for first in "nan", "NaN", "None", "\u22125.0", "NaT", "null", "inf", "#N/A", "---":
            self.refused([first, "6.0", "7.0"])
        self.refused(["0,dropped", "1,6.0"], 2)
        for heading in "time", "Zeit (s)", "[s]", "\u6642\u9593":
            self.assertEqual(self.read([heading, "6.0"], 1), [6 * 10**9], heading)

    def test_units_behind_a_number(self):
        for unit in "ms", "us", "\u00b5s", "ns", "min", "mins", "hrs", "d", "(ms)", "[ms]", "msec.", "milliseconds":
            self.assertIn("--unit", self.refused([f"5 {unit}"]))
            self.assertIn("--unit", self.refused([f"5,{unit}"]))
        for line in "5 s", "5 (s)", "5 seconds", "5 x", "5 7":
            self.assertEqual(self.read([line], 1), [5 * 10**9], line)
        for heading in "time_ms", "t[us]", "Timestamp (ms)", "t/\u00b5s":
            self.assertIn("--unit", self.refused([heading, "5"]))
        for heading in ("ms", "milliseconds", "Time (milliseconds)", "time_msec", "time_seconds_ms",
                        "Time (min)", "Time [h]", "t (hours)", "Date (days)"):
            self.assertIn(f"'{heading}' says", self.refused([heading, "5"]))
        for heading in ("time_s", "frames", "items", "time", "[s]", "Time (s)", "time_sec", "seconds", "t_min", "Zeit h",
                        "exposures", "Items (d.h)"):
            self.assertEqual(self.read([heading, "5"], 1), [5 * 10**9], heading)

    def test_numbers_of_another_unit_are_too_large(self):
        for text in "1795902646590", "1795902646590000", "1795902646590000000", "1795902646590.25":
            self.assertIn("is too large for a time in this unit: --unit s, ms, us or ns says another", self.refused([text]))

    def notes(self, *lines) -> str:
        file = self.folder / "times.txt"
        file.write_text("\n".join(lines) + "\n", encoding="utf-8")
        return subprocess.run([os.environ["TIMES_OF"], file, "1", "s", "0", "notes"], capture_output=True, text=True,
                              timeout=60, check=True).stdout

    def test_times_that_stand_still_or_go_back_are_told(self):
        self.assertEqual(self.notes("1.5", "2", "2.5"), "")
        for digits in "1.7959e+09", "1795902646":
            said = self.notes("# MATLAB's dlmwrite, a clock of whole seconds", "time", *[digits] * 9)
            self.assertIn("times.txt:4: the time is that of the line before", said)
            self.assertIn("(and in 7 more lines)", said)
        for before, after, seconds in (("12:59:59.5", "01:00:00", "43199.5"), ("02:59:59.9", "02:00:00", "3599.9")):
            said = self.notes(f"2026-10-25 {before}Z", f"2026-10-25 {after}Z", f"2026-10-25 {after}.1Z")
            self.assertIn(f"times.txt:2: the time goes back by {seconds} s: lines in another order, hours without AM", said)
            self.assertIn("(and in 0 more lines)", said)
        self.assertIn("goes back by", self.notes("-9e9", "9e9", "-9e9"))

    def test_numbers_with_parted_thousands(self):
        for text in ("1 234.5", "1\u00a0234,5", "1\u202f234.5", "1'234.5", "1.234,5"):
            self.assertEqual(self.read([f"7;{text}"], 2), [1234500000000], text)
            self.assertEqual(self.read([f'7,"{text}",x'], 2), [1234500000000], text)
        self.assertEqual(self.read(['7,"1,234.5"', '8,"1,234,567"'], 2), [1234500000000, 1234567 * 10**9])
        # Where these marks end columns, too, it says what may be meant.
        for lines in (["1 234.5", "1 235.5"], ["998.5", "1 000.5"], ["1 795 902 646.5"], ["-1 234"], ["1,234.5", "1,235.5"],
                      ["998.5", "1,000.5"], ["1,234,567"]):
            said = self.refused(lines, "")
            self.assertIn("between its thousands, or columns: write it without these", said, lines)
            if len({len(line.split(" ")) for line in lines}) == 1 == len({len(line.split(",")) for line in lines}):
                self.assertIn("or let a line of headings or --column 1 tell", said)
                if lines != ["1,234,567"]:  # which of its commas is a decimal one --column does not say
                    self.assertEqual(len(self.read(lines, 1)), len(lines))  # told: columns
        self.assertIn("between its thousands", self.refused(["998.5", "1 000.5"], 1))
        self.assertEqual(self.read(["frame time", "1 234.5", "2 235.5"], 2), [234500000000, 235500000000])
        self.assertEqual(self.read(["time frame", "1 234", "2 235"], ""), [10**9, 2 * 10**9])
        self.assertEqual(self.read(["1 0.5", "2 12.5", "12 1.234"], ""), [10**9, 2 * 10**9, 12 * 10**9])

    def test_a_heading_in_a_comment_has_a_unit_too(self):
        for lines, column in ((["# time_ms", "5"], 1), (["# log of the camera", "# frame,t (ms)", "1,5"], 2), (["time in ms", "5"], 1)):
            self.assertIn("says ms, and another unit is taken", self.refused(lines, column))
        for lines, column in ((["# time_s", "5"], 1), (["# exposure 30 ms", "5"], 1), (["# time_ms", "time", "5", "# time_ms"], 1),
                              (["# frame_ms,time", "1,5"], 2)):
            self.assertEqual(self.read(lines, column), [5 * 10**9], lines)

    def test_what_is_no_text_is_named(self):
        file = self.folder / "times.txt"
        for content, text in (("1.5\n".encode("utf-16"), "is UTF-16"), (b"1.5\n2.5\0\n", "line 2 has a byte of value 0")):
            file.write_bytes(content)
            done = subprocess.run([os.environ["TIMES_OF"], file, "1", "s", "0"], capture_output=True, text=True, timeout=60)
            self.assertEqual(done.returncode, 1)
            self.assertIn(text, done.stderr)

    def test_lines_end_as_on_any_computer(self):
        file = self.folder / "times.txt"
        for end in "\n", "\r\n", "\r", "\n\r", "\r\r\n":
            for last in "", end:
                file.write_bytes(end.join(["# log", "time", "5.5", "6", "2026-11-28T21:50:46Z"]).encode() + last.encode())
                done = subprocess.run([os.environ["TIMES_OF"], file, "1", "s", "0"], capture_output=True, text=True,
                                      timeout=60, check=True)
                self.assertEqual([int(line) for line in done.stdout.split()],
                                 [5500000000, 6000000000, in_python("2026-11-28T21:50:46Z")], repr(end))

    def test_dates_of_other_kinds_are_refused(self):
        for text in ("11/28/2026 21:50:46", "28.11.2026 21:50:46", "28-Nov-2026 21:50:46", "2026/11/28 21:50:46",
                     "21:50:46.590", "2026-11-28 21:50:46:590", "26-11-28 21:50:46", "2026-11-28_21-50-46",
                     "Sat Nov 28 21:50:46 2026", "2026-11-28T21:50:46.59Z[UTC]", "numpy.datetime64('2026-11-28T21:50:46')",
                     "PT12.5S", "0x6B0AF6F6", "1_795_902_646", "NaT", "2026-02-29 10:00:00",
                     "2026-11-28 23:58:60", "2026-11-28 24:00:01", "2026-11-28T21:50:46+24:00"):
            self.assertIn("times.txt:2: ", self.refused(["2026-01-01", text]))


if __name__ == "__main__":
    unittest.main()
