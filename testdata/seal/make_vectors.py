#!/usr/bin/env python3
"""Writes vectors.txt: INIT, RESP, PROOF, COOKIE, DATA and a stream's record, each step and each field.

It shares no code with internal/session and needs nothing but Python's own library:
hashes are hashlib's, the curve (RFC 7748) and the cipher (RFC 8439) are written out.

    python3 make_vectors.py > vectors.txt
"""
import hashlib
import hmac
import struct

P = 2**255 - 19


def x25519(k, u):
    k = bytearray(k)
    k[0] &= 248
    k[31] = (k[31] & 127) | 64
    k = int.from_bytes(k, "little")
    x1 = int.from_bytes(u, "little") & ((1 << 255) - 1)
    x2, z2, x3, z3, swap = 1, 0, x1, 1, 0
    for t in range(254, -1, -1):
        bit = k >> t & 1
        if swap ^ bit:
            x2, x3, z2, z3 = x3, x2, z3, z2
        swap = bit
        a, b, c, d = x2 + z2, x2 - z2, x3 + z3, x3 - z3
        da, cb = d * a % P, c * b % P
        x3, z3 = (da + cb) ** 2 % P, x1 * (da - cb) ** 2 % P
        aa, bb = a * a % P, b * b % P
        e = aa - bb
        x2, z2 = aa * bb % P, e * (aa + 121665 * e) % P
    if swap:
        x2, z2 = x3, z3
    return (x2 * pow(z2, P - 2, P) % P).to_bytes(32, "little")


def public(k):
    return x25519(k, (9).to_bytes(32, "little"))


def block(key, counter, nonce):
    s = [0x61707865, 0x3320646E, 0x79622D32, 0x6B206574]
    s += list(struct.unpack("<8L", key)) + [counter] + list(struct.unpack("<3L", nonce))
    w = list(s)

    def quarter(a, b, c, d):
        for x, y, z, n in ((a, b, d, 16), (c, d, b, 12), (a, b, d, 8), (c, d, b, 7)):
            w[x] = (w[x] + w[y]) & 0xFFFFFFFF
            v = w[z] ^ w[x]
            w[z] = (v << n | v >> 32 - n) & 0xFFFFFFFF

    for _ in range(10):
        for i in range(4):
            quarter(i, i + 4, i + 8, i + 12)
        for i in range(4):
            quarter(i, 4 + (i + 1) % 4, 8 + (i + 2) % 4, 12 + (i + 3) % 4)
    return struct.pack("<16L", *((a + b) & 0xFFFFFFFF for a, b in zip(w, s)))


def chacha(key, nonce, text):
    stream = b"".join(block(key, 1 + i, nonce) for i in range((len(text) + 63) // 64))
    return bytes(a ^ b for a, b in zip(text, stream))


def poly1305(key, text):
    r = int.from_bytes(key[:16], "little") & 0x0FFFFFFC0FFFFFFC0FFFFFFC0FFFFFFF
    acc = 0
    for i in range(0, len(text), 16):
        acc = (acc + int.from_bytes(text[i : i + 16] + b"\1", "little")) * r % (2**130 - 5)
    return (acc + int.from_bytes(key[16:], "little") & (2**128 - 1)).to_bytes(16, "little")


def seal(key, counter, ad, text):
    """ChaCha20-Poly1305; Noise's nonce is four zero bytes and the counter, least byte first."""
    nonce = b"\0" * 4 + struct.pack("<Q", counter)
    out = chacha(key, nonce, text)
    pad = lambda b: b + b"\0" * (-len(b) % 16)
    return out + poly1305(block(key, 0, nonce)[:32], pad(ad) + pad(out) + struct.pack("<QQ", len(ad), len(out)))


def hchacha(key, nonce):
    """The sub-key of XChaCha20: the block without the final addition."""
    s = [0x61707865, 0x3320646E, 0x79622D32, 0x6B206574]
    s += list(struct.unpack("<8L", key)) + list(struct.unpack("<4L", nonce))
    whole = struct.unpack("<16L", block(key, struct.unpack("<L", nonce[:4])[0], nonce[4:]))
    w = [(a - b) & 0xFFFFFFFF for a, b in zip(whole, s)]
    return struct.pack("<8L", *(w[:4] + w[12:]))


def xseal(key, nonce, ad, text):
    """XChaCha20-Poly1305: HChaCha20 of the first 16 bytes, then four zero bytes and the last 8."""
    sub, rest = hchacha(key, nonce[:16]), b"\0" * 4 + nonce[16:]
    out = chacha(sub, rest, text)
    pad = lambda b: b + b"\0" * (-len(b) % 16)
    return out + poly1305(block(sub, 0, rest)[:32], pad(ad) + pad(out) + struct.pack("<QQ", len(ad), len(out)))


def blake2s(b):
    return hashlib.blake2s(b).digest()


def keyed(key, b, size):
    return hashlib.blake2s(b, key=key, digest_size=size).digest()


def hkdf(ck, material, n):
    mac = lambda k, b: hmac.new(k, b, hashlib.blake2s).digest()
    temp, out, last = mac(ck, material), [], b""
    for i in range(n):
        last = mac(temp, last + bytes([i + 1]))
        out.append(last)
    return out


def put(name, value, note=""):
    text = value if isinstance(value, str) else value.hex()
    print(f"{name:<13} = {text}" + (f"  # {note}" if note else ""))


def step(text):
    print("\n# " + text)


class Noise:
    """The symmetric state of Noise_XXpsk0_25519_ChaChaPoly_BLAKE2s."""

    def __init__(self, prologue):
        name = b"Noise_XXpsk0_25519_ChaChaPoly_BLAKE2s"
        self.h = self.ck = blake2s(name)
        self.mix_hash(prologue)

    def mix_hash(self, b):
        self.h = blake2s(self.h + b)

    def mix_key(self, b):
        self.ck, self.k = hkdf(self.ck, b, 2)
        self.n = 0

    def mix_psk(self, psk):
        self.ck, temp, self.k = hkdf(self.ck, psk, 3)
        self.mix_hash(temp)
        self.n = 0

    def mix_ephemeral(self, e):  # with a pre-shared key, e is mixed into the key, too
        self.mix_hash(e)
        self.mix_key(e)

    def encrypt(self, text):
        out = seal(self.k, self.n, self.h, text)
        self.n += 1
        self.mix_hash(out)
        return out

    def show(self):
        put("h", self.h)
        put("ck", self.ck)
        put("k", self.k)


print("""# The seal, version 2: docs/protocol.md, 10. Written by make_vectors.py, which shares no code with
# internal/session. "|" joins bytes; numbers are big endian; BLAKE2s has 32 bytes unless another size is said.""")

secret = bytes(range(32))
step("The key of the cluster, its id, and what is derived from it")
put("secret", secret)
key_id = hashlib.sha256(b"bully-agent key id\0" + secret).digest()[:4]
put("key_id", key_id, 'SHA-256("bully-agent key id" | 00 | secret), the first 4 bytes')
psk = keyed(secret, b"bully-agent seal psk 1", 32)
mac_key = keyed(secret, b"bully-agent seal mac 1", 32)
put("psk", psk, 'BLAKE2s("bully-agent seal psk 1"), keyed with secret')
put("mac_key", mac_key, 'BLAKE2s("bully-agent seal mac 1"), keyed with secret')

cookie_key = keyed(secret, b"bully-agent seal cookie 1", 32)
put("cookie_key", cookie_key, 'BLAKE2s("bully-agent seal cookie 1"), keyed with secret')


def id_of(static):
    """The UUID of version 8 (RFC 9562) of a public key."""
    b = bytearray(blake2s(b"bully-agent id 1" + static)[:16])
    b[6], b[8] = b[6] & 0x0F | 0x80, b[8] & 0x3F | 0x80
    return bytes(b)


def receipt(key, incarnation):
    """What a host has others keep of one of its lives."""
    return keyed(keyed(key, b"bully-agent receipt 1", 32), struct.pack(">L", incarnation), 16)


step("The two hosts")
cluster = b"prod"
put("cluster", cluster.decode())
a_key, b_key = bytes([0x0A] * 32), bytes([0x0B] * 32)
a_static, b_static = public(a_key), public(b_key)
a_life = bytes.fromhex("00000007" + "a1a2a3a4a5a6a7a8")
b_life = bytes.fromhex("00000102" + "b1b2b3b4b5b6b7b8")
b_addr = bytes(10) + b"\xff\xff" + bytes([192, 0, 2, 7]) + struct.pack(">H", 7950)
a_addr = bytes(10) + b"\xff\xff" + bytes([192, 0, 2, 6]) + struct.pack(">H", 7950)
put("a_key", a_key, "the host's private key")
put("a_static", a_static)
put("a_id", id_of(a_static), 'BLAKE2s("bully-agent id 1" | a_static), 16 bytes as a UUID of version 8')
put("a_life", a_life, "incarnation | random")
put("b_key", b_key)
put("b_static", b_static)
put("b_id", id_of(b_static))
put("b_life", b_life)
put("a_addr", a_addr, "192.0.2.6:7950, as IPv6 and port")
put("b_addr", b_addr, "192.0.2.7:7950")
a_private, b_private = bytes([0xA0] * 32), bytes([0xB0] * 32)
put("a_private", a_private, "ephemeral")
put("b_private", b_private, "ephemeral")
number = struct.pack(">Q", 1)

step("INIT, 140 bytes, from a to b")
init = b"\xb7\x5e" + b"\x21" + b"\x00" + key_id + number
put("magic", init[:2])
put("version_type", init[2:3], "2, INIT")
put("kind", init[3:4], "datagrams")
put("key_id", key_id)
put("number", number)
prologue = init + b_addr + cluster
put("prologue", prologue, "header | b_addr | cluster")
n = Noise(prologue)
n.mix_psk(psk)
put("after psk:", "")
n.show()
e = public(a_private)
put("e", e, "its first 4 bytes are a's index")
n.mix_ephemeral(e)
put("after e:", "")
n.show()
sealed = n.encrypt(bytes(44))
put("sealed", sealed, "44 zeros under k, nonce 0, with h")
init += e + sealed
mac = keyed(mac_key, init, 16)
put("mac", mac, "BLAKE2s of 16 bytes over all before it, keyed with mac_key")
init += mac
bare = init
init += bytes(16)
put("init", init, "no cookie is known: 16 zeros")
assert len(init) == 140

step("COOKIE, 72 bytes, that b could answer INIT with")
cookie = bytes.fromhex("c0c1c2c3c4c5c6c7c8c9cacbcccdcecf")
nonce = bytes(range(24))
put("cookie", cookie, "b's own secret: only b can make it")
put("nonce", nonce)
asked = b"\xb7\x5e\x26\x00" + e[:4] + number + nonce + xseal(cookie_key, nonce, mac, cookie)
put("cookie_msg", asked, "header | nonce | cookie under cookie_key, XChaCha20-Poly1305, with INIT's mac | tag")
assert len(asked) == 72
put("signature", keyed(cookie + bytes(16), bare, 16), "that INIT would have in the place of its zeros: BLAKE2s keyed with cookie and 16 zeros")

step("RESP, 140 bytes, from b to a")
resp = b"\xb7\x5e" + b"\x22" + b"\x00" + e[:4] + number
put("version_type", resp[2:3], "2, RESP")
put("kind", resp[3:4])
put("index", e[:4], "a's")
put("number", number, "INIT's")
f = public(b_private)
put("e", f, "its first 4 bytes are b's index")
n.mix_ephemeral(f)
dh = x25519(b_private, e)
assert dh == x25519(a_private, f)
put("dh", dh, "ee")
n.mix_key(dh)
put("after ee:", "")
n.show()
s = n.encrypt(b_static)
put("s", s, "b_static under k, nonce 0, with h")
dh = x25519(b_key, e)
assert dh == x25519(a_private, b_static)
put("dh", dh, "es")
n.mix_key(dh)
put("after es:", "")
n.show()
sealed = n.encrypt(b_life)
put("sealed", sealed, "b_life")
resp += f + s + sealed
rmac = keyed(mac_key, mac + resp, 16)
put("mac", rmac, "over INIT's mac | all before it")
resp += rmac
put("resp", resp)
assert len(resp) == 140

step("The card of a: what HELLO carries of it")
text = lambda b: bytes([len(b)]) + b
flags = 1 << 1 | 1 << 2 | 1 << 4
card = struct.pack(">BHBBBLQ", 1, 100, flags, 1, 2, 0x01020304, 0x0A0B0C0D0E0F1011)
put("head", card, "version, priority, flags: draining, witness, settled; wire versions, config hash, digest of jobs")
reason = b"kernel upgrade"
card += text(b"alpha.lan") + text(b"lease=1s") + bytes([1 + len(reason)]) + reason
put("card", card, "head | name | settings | reason of maintenance, with their lengths; the last is one more")

step("The host list of a: itself and b")
hosts = hashlib.blake2s(b"bully-agent hosts 1" + b"".join(sorted([id_of(a_static), id_of(b_static)]))).digest()[:8]
put("hosts", hosts, "the first 8 bytes of BLAKE2s-256(\"bully-agent hosts 1\" | the ids, sorted)")

step("PROOF, from a to b, with HELLO and a frame")
proof = b"\xb7\x5e" + b"\x25" + b"\x00" + f[:4] + number
put("version_type", proof[2:3], "2, PROOF")
put("index", f[:4], "b's")
s = n.encrypt(a_static)
put("s", s, "a_static under k of es, nonce 1")
dh = x25519(a_key, f)
assert dh == x25519(b_private, a_static)
put("dh", dh, "se")
n.mix_key(dh)
put("after se:", "")
n.show()
given = receipt(a_key, 7)
put("given", given, "of a's life 7, which b keeps: BLAKE2s of 16 bytes over 00000007, keyed with BLAKE2s(\"bully-agent receipt 1\") that is keyed with a_key")
shown = struct.pack(">L", 0x101) + receipt(b_key, 0x101)
put("shown", shown, "that b gave a in its life 257")
said = b"\xb7\x5e\x48\x01" + a_addr + b"\x01\x00" + struct.pack(">LLH", 0, 3, len(card)) + given + shown + hosts + key_id + card
put("said", said, "HELLO: b7 5e 48, flags, address, port, 1 key, 0, no card of b, card 3, its length, given, shown, digest of the host list, key id, card")
carried = b"\xb7\x1e and what a frame has"
put("payload", a_life + said + carried, "a_life | HELLO | frame")
sealed = n.encrypt(a_life + said + carried)
put("sealed", sealed)
proof += s + sealed
pmac = keyed(mac_key, rmac + proof, 16)
put("mac", pmac, "over RESP's mac | all before it")
proof += pmac
put("proof", proof)

step("The session's keys: HKDF of ck and nothing")
from_a, from_b = hkdf(n.ck, b"", 2)
put("from_a", from_a)
put("from_b", from_b)

step("DATA, from a to b, the sixth of its session")
text = b"\xb7\x1e and what a frame has"
head = b"\xb7\x5e" + b"\x23" + b"\x00" + f[:4] + struct.pack(">Q", 5)
put("version_type", head[2:3], "2, DATA")
put("zero", head[3:4])
put("index", f[:4], "b's")
put("counter", head[8:])
put("inner", text)
data = head + seal(from_a, 5, head, text)
put("ciphertext", data[16:-16], "inner under from_a, nonce 5, with the header")
put("tag", data[-16:])
put("data", data)

step("DATA, from b to a, the first: HELLO")
text = b"\xb7\x5e\x48\x01" + b_addr + b"\x02\x00" + struct.pack(">LLH", 3, 0, 0)
text += receipt(b_key, 0x102) + struct.pack(">L", 7) + receipt(a_key, 7) + bytes(8) + key_id + b"\x01\x02\x03\x04"
put("inner", text, "b7 5e 48, flags, address, port, 2 keys, 0, card 3 of a has come, no card, given, life 7 of a and its receipt, no host list, key ids")
head = b"\xb7\x5e" + b"\x23" + b"\x00" + e[:4] + struct.pack(">Q", 0)
put("hello", head + seal(from_b, 0, head, text))

step("DATA, from b to a, the second: REFUSED by a host list that has b alone")
lone = hashlib.blake2s(b"bully-agent hosts 1" + id_of(b_static)).digest()[:8]
text = b"\xb7\x5e\x52\x00" + struct.pack(">HH", 500, 0) + lone
put("inner", text, "b7 5e 52, 0, heard for 500 ms yet, 0, digest of the host list")
head = b"\xb7\x5e" + b"\x23" + b"\x00" + e[:4] + struct.pack(">Q", 1)
put("refused", head + seal(from_b, 1, head, text))

step("UNKNOWN, from a host that has the keys 01020304 and 05060708 only, to INIT")
put("unknown", b"\xb7\x5e\x24\x00" + e[:4] + number + bytes.fromhex("0102030405060708"))

step("A stream's first record from the end that dialled, had INIT been for one")
text = b"a tether's preamble"
length = struct.pack(">H", len(text) + 16)
put("length", length)
put("inner", text)
put("record", length + seal(from_a, 0, length, text), "length | inner under from_a, nonce 0, with length | tag")
