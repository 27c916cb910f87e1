import pytest

from dpmarket import InvalidInput
from dpmarket.errors import FileProblem
from dpmarket.figures import COLOURS, MARKERS, STYLES, new_figure, save


@pytest.mark.parametrize("ending", ["svg", "png", "pdf"])
def test_a_figure_gives_the_same_bytes_every_time(tmp_path, ending):
    for name in ("one", "two"):
        figure, (axes,) = new_figure()
        axes.plot([0, 1], [0, 1], label="line")
        axes.legend()
        save(figure, tmp_path / f"{name}.{ending}")
    one, two = ((tmp_path / f"{name}.{ending}").read_bytes() for name in ("one", "two"))
    assert one == two
    assert len(one) > 1000


def test_an_unknown_ending_and_an_existing_file_are_refused(tmp_path):
    figure, _ = new_figure(panels=2)
    with pytest.raises(InvalidInput, match="svg"):
        save(figure, tmp_path / "figure.bmp")
    save(figure, tmp_path / "figure.svg")
    with pytest.raises(FileProblem, match="exists"):
        save(figure, tmp_path / "figure.svg")
    save(figure, tmp_path / "figure.svg", overwrite=True)


def test_series_differ_in_more_than_colour():
    assert len(set(COLOURS)) == len(COLOURS) == len(set(STYLES)) == len(set(MARKERS))
