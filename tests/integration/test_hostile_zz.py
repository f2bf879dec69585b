from tests.integration.test_hostile_slow import hostile, caller
from tests.integration.test_hostile_slow import *
from tests.integration.test_hostile_slow import _post_head,_all,_MB
def test_dbg(hostile, caller, capsys):
    port = hostile.cell.gateway.port
    start = _post_head(caller, b"transfer-encoding: chunked", target=b"/v1/models")
    chunk = b"10000\r\n" + b"x" * 65536 + b"\r\n"
    with capsys.disabled():
        for i in range(3):
            e = hostile.traffic.run(flood(port, start, chunk, 200 * _MB))
            print(e.status, e.bytes_taken, e.seconds, e.answer and e.answer.headers)
        streamed = _post_head(caller, b"transfer-encoding: chunked")
        for i in range(12):
            endings = _all(hostile, 3, lambda _: flood(port, streamed, chunk, 100 * _MB))
            print("bodies", hostile.vitals().rss/2**20)
        body=chat_body(script={"huge_line": 8 * _MB})
        for i in range(12):
            hostile.traffic.fire([caller.post("", V1, text(body))]*8)
            hostile.traffic.close()
            print("answers", hostile.vitals().rss/2**20)
