"""The page at `/`: what it shows, and that a name in it is only text."""

from penstock.ingress.pages.front_page import ShownModel, page


def test_names_are_escaped_and_states_told() -> None:
    shown = page([ShownModel("<script>x</script>", is_ready=False), ShownModel("a/b", True)])
    assert "<script" not in shown
    assert "&lt;script&gt;x&lt;/script&gt;<td>starting" in shown
    assert "<td>a/b<td>ready" in shown


def test_page_without_models_says_so() -> None:
    assert "No model runs here yet." in page([])
