"""Every form in which a server can quote a secret is removed from texts."""

import json
from base64 import b64encode, urlsafe_b64encode
from urllib.parse import quote

import pytest

from medal_judges import secrets

KEY = 'sk-/+"päss>word?~9'


@pytest.mark.parametrize("before", ["", "u:", "user:", "Bearer ", "someone:"])
@pytest.mark.parametrize("after", ["", "\n", ";x"])
def test_no_form_of_a_secret_is_left(
    before: str, after: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(secrets, "_hidden", set())
    secrets.register_secret(KEY)
    header = f"{before}{KEY}{after}"
    encoded = b64encode(header.encode()).decode()
    for form in (
        header,
        quote(header, safe=""),
        json.dumps(header),
        encoded,
        urlsafe_b64encode(header.encode()).decode(),
    ):
        text = secrets.without_secrets(f"HTTP 401: you sent {form}")
        assert "***" in text and "sswor" not in text
        assert len(text.replace("***", "")) < len("HTTP 401: you sent ") + 30
    assert secrets.without_secrets("nothing to hide here") == "nothing to hide here"
