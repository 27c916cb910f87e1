"""Sets from other packages, read from stand-ins of those packages: same files, few rows."""

import io
import sys
import tarfile

import pytest

from dpmarket.datasets import (
    affairs,
    batters,
    diamonds,
    football,
    free_light_chain,
    german_health,
    health_insurance,
    unemployment_benefits,
    wives_at_work,
    young_workers,
)
from dpmarket.errors import FileProblem

FAIR = """rate_marriage,age,yrs_married,children,religious,educ,occupation,occupation_husb,affairs
3,32,9,3,3,17,2,5,0.1111111
4,22,2.5,0,1,16,3,5,0
"""
HI = """"","whrswk","hhi","whi","hhi2","education","race","hispanic","experience","kidslt6","kids618","husby","region","wght"
"1",0,"no","no","no","13-15years","white","no",13,2,1,11.96,"northcentral",214986
"2",50,"no","yes","yes","<9years","black","yes",24,0,1,1.2,"other",210119
"""  # noqa: E501
RWM = """"","id","docvis","hospvis","year","edlevel","age","outwork","female","married","kids","hhninc","educ","self","edlevel1","edlevel2","edlevel3","edlevel4"
"1",1,1,0,1984,3,54,0,0,1,0,3.05,15,0,0,0,1,0
"2",1,0,0,1985,3,55,0,0,1,0,4.51,15,0,0,0,1,0
"3",2,0,0,1984,1,44,1,1,1,0,3.05,9,0,1,0,0,0
"""  # noqa: E501
DIAMONDS = """"","carat","cut","color","clarity","depth","table","price","x","y","z"
"1",0.23,"Ideal","E","SI2",61.5,55,326,3.95,3.98,2.43
"2",1.21,"Good","D","SI1",59.8,61,3260,3.89,3.84,2.31
"""
CHAIN = """"","age","sex","sample.yr","kappa","lambda","flc.grp","creatinine","mgus","futime","death","chapter"
"1",97,"F",1997,5.7,4.86,10,1.7,0,85,1,"Circulatory"
"2",92,"F",2000,0.87,0.683,1,NA,0,1281,0,NA
"""  # noqa: E501
MALES = """"","nr","year","school","exper","union","ethn","married","health","wage","industry","occupation","residence"
"1",13,1980,14,1,"no","other","no","no",1.19754,"Business","Service_Workers","north_east"
"2",13,1981,14,2,"yes","other","no","no",1.85306,"Personal_Service","Service_Workers",NA
"""  # noqa: E501
BENEFITS = """"","stateur","statemb","state","age","tenure","joblost","nwhite","school12","sex","bluecol","smsa","married","dkids","dykids","yrdispl","rr","head","ui"
"1",4.5,167,42,49,21,"other","no","no","male","yes","yes","no","no","no",7,0.29,"yes","yes"
"2",10.5,251,55,26,2,"slack_work","no","no","male","yes","yes","no","yes","yes",10,0.52,"yes","no"
"""  # noqa: E501
MATCHES = """"","HomeTeam","AwayTeam","HomeGoals","AwayGoals","Round","Year","Date"
"1","Werder Bremen","Borussia Dortmund",3,2,1,1963,1963-08-24
"2","Hertha BSC Berlin","1. FC Nuernberg",1,1,1,1963,1963-08-24
"""
BASEBALL = """"","id","year","stint","team","lg","g","ab","r","h","X2b","X3b","hr"
"4","ansonca01",1871,1,"RC1",NA,25,120,29,39,11,3,0
"44","forceda01",1971,1,"WS3","AL",32,162,45,45,9,4,7
"""
PYDATASET = {
    "Ecdat/HI.csv": HI,
    "COUNT/rwm5yr.csv": RWM,
    "ggplot2/diamonds.csv": DIAMONDS,
    "survival/flchain.csv": CHAIN,
    "Ecdat/Males.csv": MALES,
    "Ecdat/Benefits.csv": BENEFITS,
    "vcd/Bundesliga.csv": MATCHES,
    "plyr/baseball.csv": BASEBALL,
}
TABLES = (
    batters, diamonds, football, free_light_chain, unemployment_benefits, wives_at_work, young_workers,
)  # fmt: skip


@pytest.fixture
def packages(tmp_path, monkeypatch):
    """Packages that fail if they are imported, and ship the files that are read."""
    for name in ("statsmodels", "pydataset"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "__init__.py").write_text("raise RuntimeError('imported')")
        monkeypatch.delitem(sys.modules, name, raising=False)
    folder = tmp_path / "statsmodels" / "datasets" / "fair"
    folder.mkdir(parents=True)
    (folder / "fair.csv").write_text(FAIR)
    with tarfile.open(tmp_path / "pydataset" / "resources.tar.gz", "w:gz") as bundle:
        for name, text in PYDATASET.items():
            entry = tarfile.TarInfo(f"resources/rdata/csv/{name}")
            entry.size = len(text)
            bundle.addfile(entry, io.BytesIO(text.encode()))
    monkeypatch.setattr(sys, "path", [str(tmp_path), *sys.path])
    return tmp_path


def test_a_survey_becomes_numbers_with_bounds_from_their_meaning(packages):
    data = affairs()
    assert (len(data), data.n_features) == (2, 8)
    assert data.labels.tolist() == ["yes", "no"]
    assert data.features[1].tolist() == [4, 22, 2.5, 0, 1, 16, 3, 5]
    assert (data.features >= data.low).all()
    assert (data.features <= data.high).all()


def test_levels_become_columns_of_zero_and_one(packages):
    data = health_insurance()
    assert (len(data), data.n_features) == (2, 19)
    assert data.labels.tolist() == ["less", "full time"]
    row = dict(zip(data.feature_names, data.features[1].tolist(), strict=True))
    assert {name for name, value in row.items() if value == 1.0} == {
        "hhi2 yes", "education <9years", "race black", "hispanic yes", "region other", "kids618",
    }  # fmt: skip
    assert row["husby"] == 1.2


def test_records_of_one_person_keep_their_owner(packages):
    data = german_health()
    assert (len(data), data.n_features, data.n_people) == (3, 15, 2)
    assert data.people.tolist() == [1, 1, 2]
    assert data.labels.tolist() == ["working", "working", "out of work"]


@pytest.mark.parametrize(
    ("load", "columns", "labels"),
    [
        (batters, 5, ["fewer", "five or more"]),
        (diamonds, 9, ["not dear", "dear"]),
        (football, 3, ["won", "not won"]),
        (free_light_chain, 8, ["died", "alive"]),
        (unemployment_benefits, 16, ["yes", "no"]),
        (wives_at_work, 9, ["less", "full time"]),
        (young_workers, 10, ["no", "yes"]),
    ],
)
def test_tables_keep_their_texts_numbers_and_gaps(packages, load, columns, labels):
    table = load()
    assert table.frame.shape == (2, columns)
    assert table.labels.tolist() == labels


def test_gaps_codes_and_owners_of_tables_are_what_they_are(packages):
    chain, males = free_light_chain(), young_workers()
    assert chain.frame["creatinine"].to_list() == [1.7, None]
    assert chain.frame["flc.grp"].to_list() == ["10", "1"]
    assert males.frame["residence"].to_list() == ["north_east", None]
    assert males.people.tolist() == [13, 13]
    assert batters().frame["lg"].to_list() == [None, "AL"]


@pytest.mark.parametrize("load", [affairs, health_insurance, german_health, *TABLES])
def test_a_missing_package_is_named_with_the_extra_that_brings_it(load, monkeypatch):
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(FileProblem, match=r"dpmarket\[real-data\]"):
        load()


def test_another_version_of_a_package_without_the_file_is_a_file_problem(packages):
    (packages / "statsmodels" / "datasets" / "fair" / "fair.csv").unlink()
    with pytest.raises(FileProblem, match=r"fair\.csv"):
        affairs()
    with tarfile.open(packages / "pydataset" / "resources.tar.gz", "w:gz"):
        pass
    with pytest.raises(FileProblem, match="another version"):
        german_health()
    (packages / "pydataset" / "resources.tar.gz").write_bytes(b"no archive")
    with pytest.raises(FileProblem, match="tar archive"):
        german_health()
