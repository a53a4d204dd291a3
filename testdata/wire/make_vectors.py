#!/usr/bin/env python3
"""Writes the vectors of this directory: one .txt for each kind of frame, malformed.txt and will.txt.

The vectors check package wire from outside, so this script shares nothing with
it: it was written from the wire format alone, packs with struct, and computes
CRC32C bit by bit from its definition. It runs only when the format grows; the
Go tests read the files and need no Python. Published vectors never change: a
change that alters an existing "hex" line breaks running clusters.

    python3 make_vectors.py        writes the files beside itself
"""

import hashlib
import os
import struct
import uuid
import zlib

HERE = os.path.dirname(os.path.abspath(__file__))


def crc32c(data):
    """CRC-32C (Castagnoli): reflected, polynomial 1EDC6F41, start and final xor FFFFFFFF."""
    crc = 0xFFFFFFFF
    for byte in data:
        crc ^= byte
        for _ in range(8):
            crc = (crc >> 1) ^ (0x82F63B78 if crc & 1 else 0)
    return crc ^ 0xFFFFFFFF


assert crc32c(b"123456789") == 0xE3069283  # the check value that every catalogue of CRCs gives

# ---- the format ------------------------------------------------------------

REASON = {"leader-failed": 1, "boot": 2, "preempt": 3, "no-leader": 4, "transfer": 5,
          "abandoned": 6, "lease-lost": 7, "superseded": 8}
ENUMS = {
    "reason": REASON,
    "verdict": {"ok": 0, "leader-alive": 1, "yes": 2, "leased": 3, "stale": 4, "hold": 5, "ineligible": 6},
    "ack_verdict": {"accept": 0, "stale": 1, "leased": 2, "hold": 3, "not-voter": 4},
    "phase": {"claim": 1, "active": 2},
    "knowledge": {"none": 0, "knows": 1, "leads": 2},
    "purpose": {"leader": 0, "opinion": 1},
    "standing": {"starting": 0, "following": 1, "candidate": 2, "leading": 3, "stopping": 4, "observing": 5},
    "is_ready": {"no": 0, "yes": 1},
}
ENUMS_OF = {"ROSTER": dict(ENUMS, phase={"proposed": 1, "formed": 2})}  # the others have ENUMS
ALGO_IDS = {1: "classic", 2: "enhanced", 3: "smallest"}
ALGO_BITS = ["lowest", "quorum", "sticky", "paper"]
MAX_VOTERS = 15
VOTERS = ["voter_%d" % (i + 1) for i in range(MAX_VOTERS)]
FLAG_BITS = ["ack-req", "retx", "", "hop", "draining", "active", "fresh", "wait"]

HEADER = [("magic", 2), ("version", 1), ("kind", 1), ("length", 2), ("algo", 1), ("flags", 1), ("cluster", 4),
          ("config_hash", 4), ("sender", 16), ("incarnation", 4), ("nonce", 4), ("seq", 4), ("round", 4),
          ("epoch_counter", 8), ("epoch_owner", 16), ("priority", 2), ("seat", 2)]

# number, name, what it is for, body
KINDS = [
    (1, "ELECTION", "starter to those it challenges: may I?",
     [("reason", 1), ("attempt", 1), ("pad", 2), ("heartbeat_age", 4), ("failed_counter", 8)]),
    (2, "ANSWER", "the reply to ELECTION and CANVASS",
     [("verdict", 1), ("attempt", 1), ("pad", 2), ("eta", 4), ("echo_seq", 4), ("heartbeat_age", 4)]),
    (3, "COORDINATOR", "owner of an epoch to all: I claim, or hold, this epoch",
     [("phase", 1), ("pad", 3), ("lease", 4), ("roster_version", 4), ("will", 16)]),
    (4, "COORD_ACK", "the reply to COORDINATOR",
     [("ack_verdict", 1), ("pad", 3), ("remain", 4), ("echo_seq", 4)]),
    (5, "QUERY", "joiner: who leads?", [("pad", 4)]),
    (6, "CID", "the reply to QUERY",
     [("knowledge", 1), ("pad", 3), ("heartbeat_age", 4), ("remain", 4)]),
    (7, "HEARTBEAT", "leader to all, every heartbeat interval",
     [("lease", 4), ("interval", 4), ("roster_version", 4), ("late", 4), ("will", 16)]),
    (8, "HB_ACK", "the reply to HEARTBEAT",
     [("echo_seq", 4), ("ack_flags", 1), ("pad", 3)]),
    (9, "NOMINATE", "starter to the winner it found: you lead", [("reason", 1), ("pad", 3)]),
    (10, "RESIGN", "former leader: this epoch has ended", [("reason", 1), ("pad", 3), ("successor", 16)]),
    (11, "RESIGN_ACK", "the reply to RESIGN", [("echo_seq", 4)]),
    (12, "PROBE", "anyone: are you there, and how old is your heartbeat?",
     [("purpose", 1), ("pad", 3)]),
    (13, "PROBE_ACK", "the reply to PROBE",
     [("echo_seq", 4), ("heartbeat_age", 4), ("standing", 1), ("pad", 3)]),
    (14, "PREPARE", "leader to successor: get ready to take over", [("pad", 4)]),
    (15, "READY", "the reply to PREPARE", [("is_ready", 1), ("pad", 3), ("echo_seq", 4)]),
    (16, "LEAVE", "own departure", [("pad", 4)]),
    (17, "ROSTER", "proposer or leader to voters: who may vote",
     [("roster_version", 4), ("phase", 1), ("count", 1), ("pad", 2)] + [(voter, 16) for voter in VOTERS]),
    (18, "ROSTER_ACK", "the reply to ROSTER",
     [("ack_verdict", 1), ("pad", 3), ("echo_seq", 4), ("roster_version", 4)]),
    (19, "CANVASS", "claimant to voters: would you grant me an epoch now?",
     [("reason", 1), ("attempt", 1), ("pad", 2), ("heartbeat_age", 4), ("roster_version", 4)]),
    (20, "JOB_CLAIM", "leader to voters: witness that I run this slot", [("size", 2), ("pad", 2), ("payload", 0)]),
    (21, "JOB_WITNESS", "the reply to JOB_CLAIM", [("why", 1), ("pad", 3)]),
    (22, "JOB_RECORD", "anyone to all: what has become of a run, or of a job",
     [("size", 2), ("pad", 2), ("payload", 0)]),
    (23, "LEDGER_QUERY", "new leader to the others: what do you know about runs?",
     [("digest", 8), ("place", 2), ("pad", 2)]),
    (24, "LEDGER_PART", "the reply to LEDGER_QUERY",
     [("digest", 8), ("place", 2), ("parts", 2), ("size", 2), ("pad", 2), ("payload", 0)]),
    (128, "CLIENTS", "leader to followers: who is connected to what it has",
     [("place", 2), ("parts", 2), ("size", 2), ("pad", 2), ("payload", 0)]),
]
MAX_PAYLOAD = 1100

IDENTITIES = {"sender", "epoch_owner", "successor"} | set(VOTERS)
HASHES = {"will"}
NO_WILL = "00" * 16
HEXADECIMAL = {"algo", "flags", "cluster", "config_hash", "nonce", "digest"}


def cluster(label):
    return int.from_bytes(hashlib.sha256(b"bully-agent/1\0" + label.encode()).digest()[:4], "big")


def enums(kind):
    return ENUMS_OF.get(kind[1], ENUMS)


def pack(kind, name, size, value):
    if name in IDENTITIES:
        return uuid.UUID(value).bytes
    if name in HASHES:
        return bytes.fromhex(value)
    if name in enums(kind):
        value = enums(kind)[name][value]
    return struct.pack({1: ">B", 2: ">H", 4: ">I", 8: ">Q"}.get(size, ">%ds" % size),
                       value if size != 3 else bytes(3))


def build(kind, fields):
    """The frame as a list of (name, offset, value as text, bytes, words)."""
    number, title, _, body = kind
    payload = bytes.fromhex(fields.get("payload", ""))
    total = 76 + sum(size for _, size in body) + len(payload) + 4
    rows, offset = [], 0
    for name, size in HEADER + body:
        words = ""
        if name == "magic":
            text, raw = "b71e", b"\xb7\x1e"
        elif name == "version":
            text, raw = "3.0", b"\x30"
        elif name == "kind":
            text, raw = title, bytes([number])
        elif name == "length":
            text, raw = str(total), struct.pack(">H", total)
        elif name in ("seat", "pad"):
            text, raw = "0", bytes(size)
        elif name == "size":
            text, raw = str(len(payload)), struct.pack(">H", len(payload))
        elif name == "payload":
            size, text, raw = len(payload), payload.hex(), payload
        else:
            value = fields.get(name, NOBODY if name in VOTERS else NO_WILL if name in HASHES else 0)
            raw = pack(kind, name, size, value)
            text = "0x%0*x" % (2 * size, value) if name in HEXADECIMAL else str(value)
            if name == "algo":
                words = " ".join([ALGO_IDS.get(value & 15, "")] + [w for i, w in enumerate(ALGO_BITS) if value >> 4 + i & 1])
            if name == "flags":
                words = " ".join(w for i, w in enumerate(FLAG_BITS) if value >> i & 1)
        assert len(raw) == size, (name, raw)
        rows.append((name, offset, text, raw, words.strip()))
        offset += size
    checksum = crc32c(b"".join(row[3] for row in rows))
    rows.append(("crc32c", offset, "0x%08x" % checksum, struct.pack(">I", checksum), ""))
    assert offset + 4 == total
    return rows


def frame_bytes(rows):
    return b"".join(row[3] for row in rows)


# ---- the cases -------------------------------------------------------------

NOBODY = "00000000-0000-0000-0000-000000000000"
LAST = "ffffffff-ffff-ffff-ffff-ffffffffffff"
A = "00112233-4455-4677-8899-aabbccddeeff"
B = "f0e0d0c0-b0a0-4090-8070-605040302010"
C = "5a6b7c8d-9eaf-40b1-82c3-d4e5f6071829"
FROM_A = dict(algo=0x01, cluster=cluster("prod"), config_hash=0x01020304, sender=A, incarnation=7, nonce=0xCAFEBABE,
              priority=100, epoch_owner=B)
FROM_B = dict(algo=0x01, cluster=cluster("prod"), config_hash=0x01020304, sender=B, incarnation=3, nonce=1,
              priority=200, epoch_owner=B)
assert FROM_A["cluster"] == 0x7C08BE7F

# The three frames of the protocol text, byte for byte.
GOLDEN = {
    "ELECTION": ("A challenges after B fell silent (protocol text)",
                 dict(FROM_A, flags=0x01, seq=100, round=9, epoch_counter=41, reason="leader-failed", attempt=0,
                      heartbeat_age=350, failed_counter=41),
                 "b71e3001006001017c08be7f0102030400112233445546778899aabbccddeeff00000007cafebabe00000064000000090000"
                 "000000000029f0e0d0c0b0a04090807060504030201000640000010000000000015e0000000000000029765049dc"),
    "COORDINATOR": ("B claims epoch 42 from a majority (protocol text)",
                    dict(FROM_B, algo=0x21, flags=0x01, seq=5, round=2, epoch_counter=42, phase="claim", lease=1000,
                         roster_version=1),
                    "b71e3003006c21017c08be7f01020304f0e0d0c0b0a040908070605040302010000000030000000100000005000000020000"
                    "00000000002af0e0d0c0b0a04090807060504030201000c8000001000000000003e800000001000000000000000000000000"
                    "000000006f0168ec"),
    "HB_ACK": ("A acknowledges B's heartbeat (protocol text)",
               dict(FROM_A, algo=0x21, seq=101, epoch_counter=42, echo_seq=6),
               "b71e3008005821007c08be7f0102030400112233445546778899aabbccddeeff00000007cafebabe00000065000000000000"
               "00000000002af0e0d0c0b0a040908070605040302010006400000000000600000000c866245a"),
}

# A payload is package jobs' own format, which has a version, a checksum and tests
# of its own; to a frame it is bytes. This one is long enough to look like a claim.
CLAIM = bytes(range(0x20, 0x70)).hex()

# One client of each family: 192.0.2.50:80 from 192.0.2.9:40000, and [2001:db8::50]:443 from [2001:db8::9]:40001.
CONNECTIONS = ("04c00002320050c00002099c40"
               "0620010db800000000000000000000005001bb20010db80000000000000000000000099c41")

# An ordinary frame of each other kind.
ORDINARY = {
    "ANSWER": ("B is better and needs 40 ms", dict(FROM_B, seq=17, round=9, epoch_counter=41, verdict="ok", eta=40,
                                                  echo_seq=100, heartbeat_age=348)),
    "COORD_ACK": ("A grants", dict(FROM_A, algo=0x21, flags=0x40, seq=102, round=2, epoch_counter=42,
                                   ack_verdict="accept", echo_seq=5)),
    "QUERY": ("A joins and knows nothing", dict(FROM_A, flags=0x01, seq=1, epoch_owner=NOBODY)),
    "CID": ("B leads, 210 ms of lease left", dict(FROM_B, flags=0x20, seq=18, epoch_counter=42, knowledge="leads",
                                                 remain=210)),
    "HEARTBEAT": ("B leads, every 50 ms", dict(FROM_B, algo=0x21, flags=0x21, seq=6, epoch_counter=42, lease=400,
                                              interval=50, roster_version=1)),
    "NOMINATE": ("A found B best", dict(FROM_A, algo=0x02, flags=0x01, seq=103, round=10, epoch_counter=42,
                                       reason="leader-failed")),
    "RESIGN": ("B hands over to A", dict(FROM_B, flags=0x01, seq=30, epoch_counter=42, reason="transfer", successor=A)),
    "RESIGN_ACK": ("A has heard it", dict(FROM_A, seq=104, epoch_counter=42, echo_seq=30)),
    "PROBE": ("A asks silent B", dict(FROM_A, flags=0x01, seq=105, epoch_counter=42, purpose="leader")),
    "PROBE_ACK": ("B leads on", dict(FROM_B, flags=0x20, seq=31, epoch_counter=42, echo_seq=105,
                                    heartbeat_age=0, standing="leading")),
    "PREPARE": ("B asks A to get ready", dict(FROM_B, flags=0x01, seq=29, epoch_counter=42)),
    "READY": ("A is ready", dict(FROM_A, seq=106, epoch_counter=42, is_ready="yes", echo_seq=29)),
    "LEAVE": ("A goes", dict(FROM_A, flags=0x10, seq=107, epoch_counter=42)),
    "ROSTER": ("B proposes the first voters", dict(FROM_B, algo=0x21, flags=0x01, seq=3, round=1, epoch_owner=NOBODY,
                                                  roster_version=1, phase="proposed", count=3, voter_1=A, voter_2=C,
                                                  voter_3=B)),
    "ROSTER_ACK": ("A has them on disk", dict(FROM_A, algo=0x21, seq=108, round=1, epoch_owner=NOBODY,
                                              ack_verdict="accept", echo_seq=3, roster_version=1)),
    "CANVASS": ("A asks a voter", dict(FROM_A, algo=0x21, flags=0x01, seq=109, round=11, epoch_counter=42,
                                       reason="leader-failed", heartbeat_age=1200, roster_version=672)),
    "JOB_CLAIM": ("B claims a slot of backup",
                  dict(FROM_B, algo=0x21, flags=0x01, seq=60, round=1, epoch_counter=42, payload=CLAIM)),
    "JOB_WITNESS": ("A has the claim on disk", dict(FROM_A, algo=0x21, seq=112, round=1, epoch_counter=42, why=0)),
    "JOB_RECORD": ("B's run has begun", dict(FROM_B, algo=0x21, seq=61, epoch_counter=42, payload=CLAIM)),
    "LEDGER_QUERY": ("B asks for the first part",
                     dict(FROM_B, algo=0x21, flags=0x01, seq=59, round=2, epoch_counter=42, digest=0x1122334455667788,
                          place=0)),
    "LEDGER_PART": ("A has one part", dict(FROM_A, algo=0x21, seq=113, round=2, epoch_counter=42,
                                          digest=0x8877665544332211, place=0, parts=1, payload=CLAIM)),
    "CLIENTS": ("B has two clients",
                dict(FROM_B, algo=0x21, seq=62, round=12, epoch_counter=42, place=0, parts=1, payload=CONNECTIONS)),
}

# Cases that stand behind the others, since they came later.
MORE = {
    "COORDINATOR": [("B holds its epoch, and is to be waited for",
                     dict(FROM_B, flags=0xA1, seq=31, round=3, epoch_counter=42, phase="active", lease=400))],
    "HEARTBEAT": [("B is to be waited for",
                   dict(FROM_B, flags=0xA1, seq=32, epoch_counter=42, lease=400, interval=50,
                        will="a99b7a1b2c3d4e5f60718293a4b5c6d7")),
                  ("B repeats its heartbeat 10 ms later",
                   dict(FROM_B, algo=0x21, flags=0x23, seq=7, epoch_counter=42, lease=400, interval=50, roster_version=1,
                        late=10))],
    "HB_ACK": [("A knows no roster",
                dict(FROM_A, algo=0x21, seq=110, epoch_counter=42, echo_seq=7, ack_flags=1)),
               ("A's roster is older than B's",
                dict(FROM_A, algo=0x21, seq=111, epoch_counter=42, echo_seq=8, ack_flags=2)),
               ("B's roster leaves A out",
                dict(FROM_A, algo=0x21, seq=112, epoch_counter=42, echo_seq=9, ack_flags=4))],
    "ROSTER": [("B tells the roster after a change",
                dict(FROM_B, algo=0x21, flags=0x21, seq=50, epoch_counter=42, roster_version=673, phase="formed",
                     count=2, voter_1=A, voter_2=B))],
    "JOB_WITNESS": [("A knows another claimant",
                     dict(FROM_A, algo=0x21, seq=114, round=1, epoch_counter=42, why=23))],
    "LEDGER_PART": [("A has the same ledger",
                     dict(FROM_A, algo=0x21, seq=115, round=2, epoch_counter=42, digest=0x1122334455667788))],
}


def fill(kind, number_for, identity_for, enum_for, payload=b""):
    fields = {}
    for name, size in HEADER[4:-1] + kind[3]:
        if name in ("pad", "size"):
            continue
        if name == "payload":
            fields[name] = payload.hex()
            continue
        if name in IDENTITIES:
            fields[name] = identity_for(name)
        elif name in enums(kind):
            fields[name] = enum_for(list(enums(kind)[name]))
        elif name in HASHES:
            fields[name] = number_for(name, size).to_bytes(size, "big").hex()
        else:
            fields[name] = number_for(name, size)
    return fields


def zeros(kind):
    return fill(kind, lambda name, size: 0, lambda name: NOBODY, lambda words: words[0])


def maxima(kind):
    """Every field at its end; flags without bit 2, which is reserved."""
    ends = {"flags": 0xFB, "count": MAX_VOTERS}
    return fill(kind, lambda name, size: ends.get(name, (1 << 8 * size) - 1),
                lambda name: LAST, lambda words: words[-1], b"\xff" * MAX_PAYLOAD)


def distinct(kind):
    """No byte of any number equals another's, so that fields changed over or turned round show.

    The voters of a full ROSTER need more bytes than are left: theirs differ among themselves.
    """
    count = iter(range(0x41, 0x100))
    voters = iter(range(1, 1 + 16 * MAX_VOTERS))

    def number(name, size):
        if name in ("flags", "count"):
            return {"flags": 0x41, "count": MAX_VOTERS}[name]
        return int.from_bytes(bytes(next(count) for _ in range(size)), "big")

    def identity(name):
        source = voters if name in VOTERS else count
        return str(uuid.UUID(bytes=bytes(next(source) for _ in range(16))))

    return fill(kind, number, identity, lambda words: words[1], bytes(range(1, 0x41)))


def cases(kind):
    title = kind[1]
    if title in GOLDEN:
        name, fields, want = GOLDEN[title]
        assert frame_bytes(build(kind, fields)).hex() == want, title
    else:
        name, fields = ORDINARY[title]
    yield name, fields
    yield "all zero", zeros(kind)
    yield "all at their ends", maxima(kind)
    yield "every byte another", distinct(kind)
    for member, _ in kind[3]:
        for word in enums(kind).get(member, {}):
            if word != fields[member]:
                yield "%s %s" % (member, word), dict(fields, **{member: word})
    yield from MORE.get(title, [])


FILE_HEADER = """\
# {title}, kind {number}: {purpose}
#
# Written by make_vectors.py. A case begins with a "case" line and has one line
# for each field, in the order of the frame:
#
#     name = value    # offset: bytes, and for bits their names
#
# "hex" is the whole frame, the fields' bytes one after the other. Decoding it
# must give the values, and encoding the values must give it.
"""


def write_kind(kind):
    out = [FILE_HEADER.format(title=kind[1], number=kind[0], purpose=kind[2])]
    for name, fields in cases(kind):
        rows = build(kind, fields)
        out.append("case = " + name)
        for field, offset, text, raw, words in rows:
            out.append(("%-14s = %-36s # %2d: %s %s" % (field, text, offset, raw.hex(), words)).rstrip())
        out.append("hex = " + frame_bytes(rows).hex())
        out.append("")
    with open(os.path.join(HERE, kind[1].lower() + ".txt"), "w") as f:
        f.write("\n".join(out))


# ---- malformed frames ------------------------------------------------------

MALFORMED_HEADER = """\
# What must be refused, and for which reason; and what looks odd but must not be.
#
# Written by make_vectors.py. Each line is
#
#     expected | what is wrong | the frame in hex
#
# expected is the word under which the agent counts the refusal, or "ok": then
# the frame must decode to the first case of its kind's file (election.txt or
# roster.txt), except for the minor version. "resealed" means that the checksum is right, so that only the named
# fault is there to be found.
"""


def resealed(body):
    return body + struct.pack(">I", crc32c(body))


def with_byte(frame, offset, value):
    return frame[:offset] + bytes([value]) + frame[offset + 1:]


def with_length(frame, length):
    return frame[:4] + struct.pack(">H", length) + frame[6:]


def resize(body, size):
    """Cuts or extends a frame without trailer to size bytes with it, and makes length and checksum right."""
    body = (body + bytes(range(1, 256)) * 5)[:size - 4]
    return resealed(with_length(body, size))


def malformed():
    good = bytes.fromhex(GOLDEN["ELECTION"][2])
    body, total = good[:-4], len(good)

    yield "short", "nothing at all", b""
    yield "short", "one byte", good[:1]
    yield "short", "a gossip message", bytes.fromhex("0c85a3494e43")
    yield "short", "all but one byte of the least", resize(body, 79)
    yield "magic", "a gossip message of the right size", bytes.fromhex("f4") + good[1:]
    yield "magic", "zeros", bytes(total)
    yield "magic", "magic turned round, resealed", resealed(b"\x1e\xb7" + body[2:])

    yield "version", "major 0, resealed", resealed(with_byte(body, 2, 0x00))
    yield "version", "major 1, resealed", resealed(with_byte(body, 2, 0x10))
    yield "version", "major 2, resealed", resealed(with_byte(body, 2, 0x20))
    yield "version", "major 15, resealed", resealed(with_byte(body, 2, 0xF0))
    yield "version", "major and minor changed over, resealed", resealed(with_byte(body, 2, 0x03))

    for length, what in ((total - 1, "one less"), (total + 1, "one more"), (0, "0"), (80, "80"), (0xFFFF, "65535"),
                         (0x5C00, "little endian")):
        yield "length", "length field %s, resealed" % what, resealed(with_length(body, length))
    yield "length", "a byte cut off", good[:-1]
    yield "length", "a byte too many", good + b"\0"
    yield "length", "two frames glued together", good + good
    yield "length", "1201 bytes, resealed", resize(body, 1201)

    for i in range(4):
        yield "checksum", "checksum byte %d flipped" % i, with_byte(good, total - 4 + i, good[total - 4 + i] ^ 0xFF)
    yield "checksum", "checksum zero", body + bytes(4)
    yield "checksum", "checksum little endian", body + good[:-5:-1]
    yield "checksum", "checksum without the final xor", body + struct.pack(">I", crc32c(body) ^ 0xFFFFFFFF)
    yield "checksum", "CRC-32 of Ethernet", body + struct.pack(">I", zlib.crc32(body))
    yield "checksum", "another kind in a damaged frame", with_byte(good, 3, 17)
    yield "checksum", "unknown kind in a damaged frame", with_byte(good, 3, 25)
    yield "checksum", "optional kind in a damaged frame", with_byte(good, 3, 200)

    for offset in range(76):
        expected = {0: "magic", 1: "magic", 2: "version", 4: "length", 5: "length"}.get(offset, "checksum")
        yield expected, "header byte %d flipped" % offset, with_byte(good, offset, good[offset] ^ 0xFF)

    for number in (0, 25, 127):
        yield "kind", "kind %d, resealed" % number, resealed(with_byte(body, 3, number))
    for number in (129, 130, 255):
        yield "optional", "kind %d, resealed" % number, resealed(with_byte(body, 3, number))
    yield "kind", "kind 25 without a body, resealed", resize(with_byte(body, 3, 25), 80)
    yield "optional", "kind 129 of 1200 bytes, resealed", resize(with_byte(body, 3, 129), 1200)

    for number, title, _, layout in KINDS:
        size = 80 + sum(n for _, n in layout)
        short = with_byte(body, 3, number)
        yield "body", "%s with no body, resealed" % title, resize(short, 80)
        yield "body", "%s a byte short, resealed" % title, resize(short, size - 1)

    roster = frame_bytes(build(KINDS[16], ORDINARY["ROSTER"][1]))[:-4]
    for count in (16, 17, 128, 255):
        yield "voters", "ROSTER of %d voters, resealed" % count, resealed(with_byte(roster, 81, count))
    yield "voters", "minor 1, ROSTER of 16 voters with room, resealed", resize(
        with_byte(with_byte(roster, 2, 0x31), 81, 16), len(roster) + 4 + 16)

    for number, at in ((20, 76), (22, 76), (24, 88), (128, 80)):
        kind = next(k for k in KINDS if k[0] == number)
        whole = frame_bytes(build(kind, dict(ORDINARY[kind[1]][1], payload="00" * MAX_PAYLOAD)))[:-4]
        size = whole[at:at + 2]
        assert size == struct.pack(">H", MAX_PAYLOAD)
        yield "payload", "%s of 1101 bytes, there, resealed" % kind[1], resize(
            whole[:at] + struct.pack(">H", MAX_PAYLOAD + 1) + whole[at + 2:], len(whole) + 5)
        little = frame_bytes(build(kind, ORDINARY[kind[1]][1]))[:-4]
        there = len(bytes.fromhex(ORDINARY[kind[1]][1]["payload"]))
        for claimed in (there + 1, 65535):
            yield "payload", "%s of %d bytes that says %d, resealed" % (kind[1], there, claimed), resealed(
                little[:at] + struct.pack(">H", claimed) + little[at + 2:])

    for seat in (1, 0x0100, 0xFFFF):
        yield "seat", "seat %d, resealed" % seat, resealed(body[:74] + struct.pack(">H", seat) + body[76:])
    yield "seat", "seat 1 of an unknown kind, resealed", resealed(with_byte(body, 3, 25)[:74] + b"\0\x01" + body[76:])
    yield "checksum", "seat 1 in a damaged frame", body[:74] + b"\0\x01" + good[76:]

    yield "ok", "as it should be", good
    yield "ok", "7 more bytes of body, resealed", resize(body, total + 7)
    yield "ok", "minor 1 with 7 more bytes of body, resealed", resize(with_byte(body, 2, 0x31), total + 7)
    yield "ok", "minor 1 with the same body, resealed", resealed(with_byte(body, 2, 0x31))
    yield "ok", "minor 15 of 1200 bytes, resealed", resize(with_byte(body, 2, 0x3F), 1200)
    yield "ok", "the reserved flag in use, resealed", resealed(with_byte(body, 7, 0x05))
    yield "ok", "ROSTER as it should be", resealed(roster)
    yield "ok", "ROSTER with identities beyond its count, resealed", resealed(roster[:132] + bytes(range(1, 193)))


def write_malformed():
    lines = [MALFORMED_HEADER]
    lines += ["%-8s | %-46s | %s" % (expected, what, frame.hex()) for expected, what, frame in malformed()]
    with open(os.path.join(HERE, "malformed.txt"), "w") as f:
        f.write("\n".join(lines).replace(" \n", "\n") + "\n")


# ---- wills -------------------------------------------------------------------

WILL_HEADER = """\
# Wills: the datagram, and the hash by which COORDINATOR and HEARTBEAT announce it.
#
# Written by make_vectors.py. Each line is
#
#     secret | commitment | cluster | counter | owner | incarnation | nonce | hash | datagram
"""


def will_of(secret, *, name="prod", counter=42, owner=B, incarnation=3, nonce=1):
    commitment = hashlib.blake2s(b"will secret 1" + secret).digest()
    said = struct.pack(">IHQ16sII", cluster(name), 0, counter, uuid.UUID(owner).bytes, incarnation, nonce)
    digest = hashlib.blake2s(b"will 1" + said + commitment).digest()[:16]
    datagram = b"\xb7\xd1\x30" + bytes(13) + secret
    return [secret.hex(), commitment.hex(), "0x%08x" % cluster(name), str(counter), owner, str(incarnation), "0x%08x" % nonce,
            digest.hex(), datagram.hex()]


def wills():
    secret = bytes(range(0x41, 0x61))
    yield will_of(secret)
    yield will_of(secret, name="test")
    yield will_of(secret, counter=43)
    yield will_of(secret, owner=A)
    yield will_of(secret, incarnation=4)
    yield will_of(secret, nonce=0xCAFEBABE)
    yield will_of(bytes(32), counter=0, owner=NOBODY, incarnation=0, nonce=0)
    yield will_of(b"\xff" * 32, counter=2**64 - 1, owner=LAST, incarnation=2**32 - 1, nonce=2**32 - 1)


def write_wills():
    with open(os.path.join(HERE, "will.txt"), "w") as f:
        f.write("\n".join([WILL_HEADER] + [" | ".join(row) for row in wills()]) + "\n")


if __name__ == "__main__":
    for each in KINDS:
        write_kind(each)
    write_malformed()
    write_wills()
