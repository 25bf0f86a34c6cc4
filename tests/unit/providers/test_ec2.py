"""EC2 is asked in the right shapes (a moto server on loopback), and its answers are understood (a stub)."""

from __future__ import annotations

import base64
import json
import shutil
import subprocess
import threading
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest

from slacktide.core.errors import InputError
from slacktide.journal.state.tickets import MachineKind
from slacktide.providers.base import NoCapacity, Refused, Renter, Spent, Unreachable, providers
from slacktide.providers.boot import notice_s, user_data
from slacktide.providers.ec2 import Ec2

boto3 = pytest.importorskip("boto3")
POOL = "us-east-1a/p4d.24xlarge"
SPOT, ON_DEMAND = MachineKind("spot", POOL, 8), MachineKind("on-demand", POOL, 8)
IMAGE = "ami-12c6146b"


@pytest.fixture(autouse=True)
def credentials(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.setenv(name, "testing")
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    # The server for tests rents twice when it is asked twice, as by a client that found it slow.
    monkeypatch.setattr("slacktide.providers.ec2.READ_S", 300.0)


@pytest.fixture(scope="module")
def server() -> Iterator[str]:
    moto = pytest.importorskip("moto.server")
    one = moto.ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    one.start()
    host, port = one.get_host_and_port()
    yield f"http://{host}:{port}"
    one.stop()


def ec2(endpoint: str = "", owner: str = "journal", **settings: Any) -> Ec2:
    renter = Renter(owner=owner, head="10.0.0.9:6379")
    return Ec2(region="us-east-1", image=IMAGE, renter=renter, endpoint=endpoint, **settings)


# -------------------------------------------------------------------- shapes


@pytest.mark.filterwarnings("ignore")
def test_instances_are_run_listed_and_terminated(server: str) -> None:
    own, other = ec2(server, "own"), ec2(server, "other")
    own.rent("1-a", SPOT)
    own.rent("2-a", ON_DEMAND)
    other.rent("1-a", ON_DEMAND)
    listed = own.machines()
    assert sorted((one.ticket, one.spec) for one in listed) == [("1-a", SPOT), ("2-a", ON_DEMAND)]
    assert {one.state for one in listed} <= {"starting", "up"}
    assert all(one.address and one.since_utc for one in listed)
    assert {owner: len(found) for owner, found in own.everyones().items()} == {"own": 2, "other": 1}
    ids = [one.id for one in listed]
    own.end(ids)
    own.end([*ids, "i-0123456789abcdef0"])
    assert {one.state for one in own.machines()} <= {"ending", "gone"}
    assert set(own.everyones()) == {"other"}
    other.end([one.id for one in other.machines()])


@pytest.mark.filterwarnings("ignore")
def test_an_instance_carries_tags_joins_and_ends_itself(server: str) -> None:
    own = ec2(server, "shapes", prepare="pip install ray", disk_gb=200)
    own.rent("1-a", SPOT)
    (machine,) = own.machines()
    client = boto3.client("ec2", region_name="us-east-1", endpoint_url=server)
    data = client.describe_instance_attribute(InstanceId=machine.id, Attribute="userData")
    script = base64.b64decode(data["UserData"]["Value"]).decode()
    assert script == user_data("1-a", SPOT, own.renter, "pip install ray", "", "48h")
    (instance,) = client.describe_instances(InstanceIds=[machine.id])["Reservations"][0]["Instances"]
    assert instance["MetadataOptions"]["HttpTokens"] == "required"
    assert instance["InstanceLifecycle"] == "spot"
    volumes = client.describe_volumes(Filters=[{"Name": "attachment.instance-id", "Values": [machine.id]}])
    tags = {tag["Key"]: tag["Value"] for tag in volumes["Volumes"][0].get("Tags", ())}
    assert tags["slacktide:owner"] == "shapes"
    own.end([machine.id])


@pytest.mark.filterwarnings("ignore")
def test_all_pages_of_a_list_are_read_and_all_regions_asked(server: str) -> None:
    own = Ec2(
        region="us-east-1, eu-west-1", image=f"us-east-1={IMAGE},eu-west-1={IMAGE}",
        renter=Renter(owner="regions"), endpoint=server,
    )  # fmt: skip
    own.rent("1", ON_DEMAND)
    own.rent("2", MachineKind("on-demand", "eu-west-1b/g4dn.xlarge", 1))
    assert {one.spec.pool for one in own.machines()} == {POOL, "eu-west-1b/g4dn.xlarge"}
    with pytest.raises(Refused, match="must be in a region of"):
        own.rent("3", MachineKind("spot", "ap-south-1a/g4dn.xlarge", 1))
    own.end([one.id for one in own.machines()])
    assert not own.everyones().get("regions")


# -------------------------------------------------------------------- answers


@pytest.fixture
def stubbed() -> Iterator[tuple[Ec2, Any]]:
    from botocore.stub import Stubber

    own = ec2()
    client = boto3.client("ec2", region_name="us-east-1")
    own._clients["us-east-1"] = client
    with Stubber(client) as stub:
        yield own, stub


@pytest.mark.parametrize(
    ("code", "status", "kind"),
    [
        ("InsufficientInstanceCapacity", 500, NoCapacity),
        ("MaxSpotInstanceCountExceeded", 400, NoCapacity),
        ("VcpuLimitExceeded", 400, NoCapacity),
        ("IdempotentInstanceTerminated", 400, Spent),
        ("IdempotentParameterMismatch", 400, Spent),
        ("RequestLimitExceeded", 503, Unreachable),
        ("SomethingNew", 500, Unreachable),
        ("UnauthorizedOperation", 403, Refused),
        ("InvalidAMIID.NotFound", 400, Refused),
    ],
)
def test_what_an_answer_means(
    stubbed: tuple[Ec2, Any], code: str, status: int, kind: type[Exception]
) -> None:
    own, stub = stubbed
    stub.add_client_error("run_instances", code, "as it says", http_status_code=status)
    with pytest.raises(kind, match=f"{code}: as it says"):
        own.rent("1-a", SPOT)


def test_the_same_ticket_asks_the_same_with_one_token(stubbed: tuple[Ec2, Any]) -> None:
    own, _ = stubbed
    first, again = own._request("1-a", SPOT), own._request("1-a", SPOT)
    assert first == again
    assert len(first["ClientToken"]) == 64
    assert own._request("2-a", SPOT)["ClientToken"] != first["ClientToken"]
    assert ec2(owner="other")._request("1-a", SPOT)["ClientToken"] != first["ClientToken"]
    assert first["InstanceInitiatedShutdownBehavior"] == "terminate"
    options = first["InstanceMarketOptions"]["SpotOptions"]
    assert options == {"SpotInstanceType": "one-time", "InstanceInterruptionBehavior": "terminate"}
    assert "InstanceMarketOptions" not in own._request("1-a", ON_DEMAND)


def test_what_was_given_is_asked_for() -> None:
    own = ec2(
        subnet="us-east-1a=subnet-1, us-east-1b=subnet-2", security_groups="sg-1, sg-2", key="mine",
        instance_profile="buckets",
    )  # fmt: skip
    request = own._request("1", SPOT)
    assert (request["SubnetId"], request["SecurityGroupIds"]) == ("subnet-1", ["sg-1", "sg-2"])
    assert (request["KeyName"], request["IamInstanceProfile"]) == ("mine", {"Name": "buckets"})
    with pytest.raises(Refused, match="there must be a part for us-east-1c"):
        own._request("1", MachineKind("spot", "us-east-1c/p4d.24xlarge", 8))


def instance(name: str, state: str, code: str = "", transition: str = "") -> dict[str, Any]:
    return {
        "InstanceId": name, "InstanceType": "p4d.24xlarge", "State": {"Name": state},
        "Placement": {"AvailabilityZone": "us-east-1a"}, "InstanceLifecycle": "spot",
        "StateReason": {"Code": code, "Message": ""}, "StateTransitionReason": transition,
        "Tags": [
            {"Key": f"slacktide:{key}", "Value": value}
            for key, value in (("owner", "journal"), ("ticket", name), ("gpus", "8"))
        ],
    }  # fmt: skip


def test_a_list_tells_who_was_taken_and_pages_are_joined(stubbed: tuple[Ec2, Any]) -> None:
    own, stub = stubbed
    taken = instance(
        "i-1", "terminated", "Server.SpotInstanceTermination", "Server (2026-05-01 10:00:00 GMT)"
    )
    pages = [
        [taken, instance("i-2", "running"), instance("i-3", "pending")],
        [instance("i-4", "terminated", "Client.UserInitiatedShutdown"), instance("i-5", "stopped", "Other")],
        [instance("i-6", "terminated", "Client.InstanceInitiatedShutdown")],
    ]
    for number, page in enumerate(pages):
        more = {"NextToken": f"more-{number}"} if number < len(pages) - 1 else {}
        stub.add_response("describe_instances", {"Reservations": [{"Instances": page}], **more})
    listed = {one.id: one for one in own.machines()}
    assert [(one.state, one.why) for one in listed.values()] == [
        ("gone", "interrupted"), ("up", ""), ("starting", ""), ("gone", ""), ("ending", "Other"),
        ("gone", "it ended itself"),
    ]  # fmt: skip
    assert listed["i-1"].until_utc == datetime(2026, 5, 1, 10, tzinfo=UTC)
    assert listed["i-2"].spec == SPOT


def test_one_that_is_not_known_does_not_save_the_others(stubbed: tuple[Ec2, Any]) -> None:
    own, stub = stubbed
    unknown = ("terminate_instances", "InvalidInstanceID.NotFound", "not there")
    stub.add_client_error(*unknown)
    stub.add_client_error(*unknown)
    stub.add_response("terminate_instances", {"TerminatingInstances": []}, {"InstanceIds": ["i-2"]})
    own.end(["i-1", "i-2"])
    stub.assert_no_pending_responses()
    stub.add_client_error("terminate_instances", "RequestLimitExceeded", "slower")
    with pytest.raises(Unreachable):
        own.end(["i-1"])


def test_nobody_answers_and_nobody_is_known(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(Unreachable):
        ec2("http://127.0.0.1:9").machines()
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_PROFILE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", "/nowhere")
    monkeypatch.setenv("AWS_CONFIG_FILE", "/nowhere")
    with pytest.raises(Refused, match="credentials must be given"):
        ec2("http://127.0.0.1:9").machines()


# -------------------------------------------------------------------- settings and scripts


def test_settings_are_checked_before_anything_is_asked() -> None:
    with pytest.raises(InputError, match="parameter 'image' must be given"):
        providers.make({"ec2": {"region": "us-east-1"}})
    with pytest.raises(InputError, match="a duration must be"):
        ec2(longest_life="long")
    with pytest.raises(InputError, match="16 KB"):
        ec2(prepare="x" * 20_000)
    with pytest.raises(Refused, match="zone/instance type"):
        ec2().rent("1", MachineKind("spot", "us-east-1a", 8))


def test_a_machine_ends_itself_and_no_name_is_read_by_its_shell() -> None:
    renter = Renter(owner="o", head="10.0.0.9:6379")
    script = user_data("1-a;reboot", MachineKind("spot", "z/a b", 8), renter, "pip install ray", "", "90m")
    assert script.splitlines()[2:5] == ["shutdown -P +90", "trap 'shutdown -P now' EXIT", "set -e"]
    assert "slacktide-ticket='1-a;reboot' --block" in script
    assert "pool='z.a b'" in script
    assert "run-me 8 spot" in user_data("1", SPOT, renter, "", "run-me {gpus} {kind}", "1h")
    assert "sleep infinity" in user_data("1", SPOT, Renter(), "", "", "1h")
    bash = shutil.which("bash")
    if bash:
        assert subprocess.run([bash, "-n"], input=script, text=True, check=False).returncode == 0


class Metadata(BaseHTTPRequestHandler):
    """The metadata service of an instance: a token first, then what is planned for it."""

    action: dict[str, str] | None = None

    def do_PUT(self) -> None:
        assert self.path == "/latest/api/token"
        assert int(self.headers["X-aws-ec2-metadata-token-ttl-seconds"]) > 0
        self._say(200, "secret")

    def do_GET(self) -> None:
        known = self.headers["X-aws-ec2-metadata-token"] == "secret"
        if self.path != "/latest/meta-data/spot/instance-action" or self.action is None:
            self._say(404, "")
        else:
            self._say(200 if known else 401, json.dumps(self.action))

    def _say(self, status: int, text: str) -> None:
        self.send_response(status)
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text.encode())

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002
        pass


def test_a_machine_reads_its_notice(monkeypatch: pytest.MonkeyPatch) -> None:
    server = ThreadingHTTPServer(("127.0.0.1", 0), Metadata)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    place = f"http://127.0.0.1:{server.server_port}"
    try:
        assert notice_s(place) is None
        soon = datetime.now(UTC) + timedelta(seconds=120)
        monkeypatch.setattr(Metadata, "action", {"action": "terminate", "time": f"{soon:%Y-%m-%dT%H:%M:%SZ}"})
        left_s = notice_s(place)
        assert left_s is not None
        assert 60 < left_s <= 120
        monkeypatch.setattr(Metadata, "action", {"action": "terminate", "time": "2020-01-01T00:00:00Z"})
        assert notice_s(place) == 0.0
        monkeypatch.setattr(Metadata, "action", {"what": "else"})
        assert notice_s(place) is None
    finally:
        server.shutdown()
        server.server_close()
    assert notice_s(place) is None
