"""What is asked, and asking it: a stream over HTTP, as any client of the API reads it."""

import http.client
import json
import urllib.parse


class Lost(Exception):
    """No whole answer; the text says what came instead."""


def questions(draw, count=40):
    """Greedy and sampled ones with seeds of their own, short and long: the same text whenever and wherever they run."""
    return [{"prompt": f"Once upon a time {number} " * draw.randint(1, 20), "max_tokens": draw.randint(20, 380),
             "temperature": draw.choice([0, 0.8, 1.0]), "seed": number, "stream": True} for number in range(count)]


def ask(url, question, hang_up_after=None, timeout_s=120):
    """The answer's text and why it ended, or the text so far where the client hangs up after so many pieces."""
    where = urllib.parse.urlsplit(url)
    connection = http.client.HTTPConnection(where.hostname, where.port, timeout=timeout_s)
    try:
        connection.request("POST", "/v1/completions", json.dumps(question), {"Content-Type": "application/json"})
        response = connection.getresponse()
        if response.status != 200:
            raise Lost(f"HTTP {response.status}: {response.read(300)!r}")
        text, why, pieces = "", None, 0
        for raw in response:
            said = raw.decode().strip().removeprefix("data: ")
            if not said:
                continue
            if said == "[DONE]":
                return f"{text} [{why}]"
            piece = json.loads(said)
            if "error" in piece:
                raise Lost(said)
            for choice in piece["choices"]:
                text, why = text + choice["text"], choice["finish_reason"] or why
            pieces += 1
            if pieces == hang_up_after:
                return text
        raise Lost(f"the stream ended after {len(text)} characters")
    except (OSError, http.client.HTTPException, ValueError) as wrong:
        raise Lost(repr(wrong)) from wrong
    finally:
        connection.close()
