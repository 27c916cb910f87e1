"""Tables as people have them: the same two patients in many spellings, and tables to be refused."""

import datetime
import io

import openpyxl

HEADER = ("id", "weight", "since", "smoker", "town")
ROWS = (
    ("007", 70.5, datetime.date(2020, 3, 31), True, "Köln, Süd"),
    ("Zoë", 81.25, datetime.date(2021, 12, 1), False, "Ulm"),
)
PLAIN = 'id,weight,since,smoker,town\n007,70.5,2020-03-31,yes,"Köln, Süd"\nZoë,81.25,2021-12-01,no,Ulm\n'
GERMAN = "id;weight;since;smoker;town\n007;70,5;31.03.2020;ja;Köln, Süd\nZoë;81,25;01.12.2021;nein;Ulm\n"


def german(old, new):
    """Return the German table with another spelling of something."""
    assert old in GERMAN
    return GERMAN.replace(old, new)


def excel(rows=ROWS, header=HEADER, change=lambda sheet, book: None):
    """Return a workbook of one sheet, changed."""
    book = openpyxl.Workbook()
    for row in (header, *rows):
        book.active.append(row)
    change(book.active, book)
    content = io.BytesIO()
    book.save(content)
    return content.getvalue()


def cells(**values):
    """Return a change of a sheet's cells, by place."""

    def change(sheet, book):
        for place, value in values.items():
            sheet[place] = value

    return change


def _numbered(sheet, book):
    sheet["A2"], sheet["A2"].number_format = 7, "000"


def _second_sheet(sheet, book):
    book.create_sheet("notes")["A1"] = "seen by Dr. K."


def _title(sheet, book):
    sheet.insert_rows(1, 2)


def _merge(sheet, book):
    sheet.merge_cells("E2:E3")


def _dates(first, second):
    return german("31.03.2020", first).replace("01.12.2021", second)


def _spread(table, separator):
    return table.replace(";", separator)


RIGHT = {
    "plain.csv": PLAIN,
    "windows lines.csv": PLAIN.replace("\n", "\r\n"),
    "old mac lines.csv": PLAIN.replace("\n", "\r"),
    "everything quoted.csv": '"id","weight","since","smoker","town"\n'
    '"007","70.5","2020-03-31","yes","Köln, Süd"\n"Zoë","81.25","2021-12-01","no","Ulm"\n',
    "row names of R.csv": '"","id","weight","since","smoker","town"\n'
    '"1","007",70.5,2020-03-31,TRUE,"Köln, Süd"\n"2","Zoë",81.25,2021-12-01,FALSE,"Ulm"\n',
    "commas with decimal commas.csv": PLAIN.replace("70.5", '"70,5"').replace("81.25", '"81,25"'),
    "byte-order mark.csv": "\ufeff" + PLAIN,
    "german.csv": GERMAN,
    "german from excel.csv": "\ufeff" + GERMAN.replace("\n", "\r\n"),
    "unicode text from excel.txt": _spread(GERMAN, "\t").encode("utf-16"),
    "separator named.csv": "sep=;\r\n" + GERMAN,
    "tabs.tsv": _spread(GERMAN, "\t"),
    "bars.txt": _spread(GERMAN, "|"),
    "semicolons with points.csv": german("70,5", "70.5").replace("81,25", "81.25"),
    "blanks in the header.csv": german("weight;since", " weight ; since"),
    "blanks around numbers.csv": german("70,5", " 70,5 "),
    "empty lines at the end.csv": GERMAN + ";;;;\n;;;;\n\n",
    "an empty column at the end.csv": GERMAN.replace("\n", ";\n"),
    "other columns.csv": "doctor;" + GERMAN.replace("\n", "\nK., Dr.;").removesuffix("K., Dr.;"),
    "a line break in a cell.csv": german("id;", 'note;id;').replace("\n007", '\n"two\nlines";007').replace(
        "\nZoë", "\n;Zoë"
    ),
    "three decimals beside one.csv": german("81,25", "81,250"),
    "dates with slashes.csv": _dates("31/03/2020", "01/12/2021"),
    "dates without zeros.csv": _dates("31.3.2020", "1.12.2021"),
    "dates with midnight.csv": _dates("2020-03-31 00:00:00", "2021-12-01 00:00:00"),
    "capitals.csv": german(";ja;", ";JA;").replace(";nein;", ";Nein;"),
    "letters.csv": german(";ja;", ";J;").replace(";nein;", ";N;"),
    "french.csv": german(";ja;", ";oui;").replace(";nein;", ";non;"),
    "program words.csv": german(";ja;", ";WAHR;").replace(";nein;", ";FALSCH;"),
    "ones and zeros.csv": german(";ja;", ";1;").replace(";nein;", ";0;"),
    "excel.xlsx": excel(),
    "ids shown with zeros.xlsx": excel(change=_numbered),
    "texts in excel.xlsx": excel([("007", "70,5", "31.03.2020", "ja", "Köln, Süd"),
                                  ("Zoë", "81,25", "01.12.2021", "nein", "Ulm")]),
    "empty rows in excel.xlsx": excel([*ROWS, (None,) * 5, ("", None, None, None, None)]),
    "an empty sheet.xlsx": excel(change=lambda sheet, book: book.create_sheet("Sheet2")),
    "a title beside.xlsx": excel(change=cells(G1="Patients 2024")),
}  # fmt: skip
"""Read to the rows above, whatever their spelling."""

THOUSANDS = "'weight': a separator of thousands"
WRONG = {
    "points between thousands.csv": (german("81,25", "1.081,25"), THOUSANDS + ".*line 3"),
    "spaces between thousands.csv": (german("81,25", "1 081,25"), THOUSANDS + ".*line 3"),
    "english thousands.csv": (PLAIN.replace("81.25", '"1,081.25"'), "a separator of thousands.*line 3"),
    "perhaps thousands.csv": (
        GERMAN.replace("70,5", "1.234").replace("81,25", "2.345"),
        "what may be one.*line 2, 3",
    ),
    "points and commas.csv": (german("70,5", "70.5"), "'weight': a decimal comma .write a point.*line 3"),
    "units.csv": (german("81,25", "81,25 kg"), "'weight': no number in 1 row: line 3"),
    "a row of units.csv": (german("town\n", "town\n;kg;;;\n"), "'weight': no number in 1 row: line 2"),
    "western europe.csv": (GERMAN.encode("cp1252"), "line 2 is no text in UTF-8.*CSV UTF-8"),
    "a title.csv": ("Patients 2024\n\n" + GERMAN, "line 3 has 5 cells, the header row 1.*first row"),
    "a title with semicolons.csv": ("Patients 2024;;;;\n" + GERMAN, "header row missing"),
    "commas in cells.csv": (PLAIN.replace('"', ""), "line 2 has 6 cells, the header row 5.*quotes around it"),
    "an empty cell.csv": (german("81,25", ""), "'weight': an empty cell in 1 row: line 3"),
    "month first.csv": (_dates("03/31/2020", "12/01/2021"), "no date such as"),
    "short years.csv": (_dates("31.03.20", "01.12.21"), "no date such as"),
    "crosses.csv": (german(";ja;", ";x;").replace(";nein;", ";;"), "'smoker': neither true nor false"),
    "another name.csv": (german("weight", "Gewicht"), "cannot find 'weight'"),
    "a column twice.csv": (german("town\n", "town;id\n"), "expected column 'id' once"),
    "old.xls": (b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1", r"ending in \.csv, \.xlsx or \.parquet"),
    "with a password.xlsx": (b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1", "password.*save it as .xlsx"),
    "two sheets.xlsx": (excel(change=_second_sheet), "2 of its sheets.*file of its own"),
    "merged cells.xlsx": (excel(change=_merge), "merged cells; unmerge"),
    "an error.xlsx": (excel(change=cells(B3="#DIV/0!")), "an error.*row 3"),
    "a formula without a result.xlsx": (excel(change=cells(B3="=B2*2")), "formula without a result.*row 3"),
    "a title in excel.xlsx": (excel(change=_title), "first row is empty"),
    "thousands in excel.xlsx": (excel(change=cells(B3="1.081,25")), "a separator of thousands.*row 3"),
}  # fmt: skip
"""Refused, with these words."""
