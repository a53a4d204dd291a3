#!/usr/bin/env python3
"""Writes vectors.txt: private keys with their public keys and ids, which public keys are canonical,
and hashes of machine-ids.

It shares no code with internal/identity and needs nothing but Python's own library:
the hash is hashlib's, the UUID is uuid's, the curve (RFC 7748) is written out.

    python3 make_vectors.py > vectors.txt
"""
import hashlib
import uuid

P = 2**255 - 19


def public(private):
    """X25519 of the private key and 9: RFC 7748, 5."""
    k = int.from_bytes(private, "little") & ~7 & (2**255 - 1) | 2**254
    x2, z2, x3, z3, swap = 1, 0, 9, 1, 0
    for t in reversed(range(255)):
        bit = k >> t & 1
        if swap ^ bit:
            x2, x3, z2, z3 = x3, x2, z3, z2
        swap = bit
        a, b, c, d = x2 + z2, x2 - z2, x3 + z3, x3 - z3
        x3, z3 = (d * a + c * b) ** 2 % P, 9 * (d * a - c * b) ** 2 % P
        e = a * a - b * b
        x2, z2 = a * a * b * b % P, e * (a * a + 121665 * e) % P
    if swap:
        x2, z2 = x3, z3
    return (x2 * pow(z2, P - 2, P) % P).to_bytes(32, "little")


def identity(key):
    first = hashlib.blake2s(b"bully-agent id 1" + key).digest()[:16]
    bits = int.from_bytes(first, "big")
    bits = bits & ~(0xF << 76) | 8 << 76  # version 8
    bits = bits & ~(3 << 62) | 2 << 62  # the variant of RFC 9562
    made = uuid.UUID(int=bits)
    assert made.variant == uuid.RFC_4122 and made.version == 8
    return str(made)


print("""# A host's key pair and id: docs/protocol.md, 2.1. Written by make_vectors.py, which shares no code with internal/identity.
# pair = private key, public key, id: UUID version 8 of BLAKE2s-256("bully-agent id 1" | public key)
""")
privates = [
    bytes(range(32)),
    b"\xff" * 32,
    b"\x01" + bytes(31),
    bytes(31) + b"\x80",
] + [hashlib.sha256(b"%d" % i).digest() for i in range(11)]
NINE = (9).to_bytes(32, "little")  # RFC 7748, 5.2: the first iteration
assert public(NINE).hex() == "422c8e7a6227d7bca1350b3e2bb7279f7897b87bb6854b783c60e80311ae3079"
for private in privates:
    key = public(private)
    print("pair =", private.hex(), key.hex(), identity(key))

print("\n# canonical and other = a public key whose number is below 2^255 - 19, and one whose number is not")
for number in [0, 1, 9, P - 2, P - 1, 2**254, 2**255 - 2**240, 2**255 - 257 * 256, 2**248 - 1, P - 256]:
    print("canonical =", number.to_bytes(32, "little").hex())
for number in [P, P + 1, P + 9, P + 18, 2**255, 2**255 + 9, 2**255 + P - 1, 2**255 + P, 2**256 - 1]:
    print("other     =", number.to_bytes(32, "little").hex())

print("\n# machine = machine-id, its hash: BLAKE2s of 16 bytes over the digits, keyed with bully-agent machine 1")
for i in range(4):
    text = hashlib.sha256(b"machine %d" % i).hexdigest()[:32]
    print("machine =", text, hashlib.blake2s(text.encode(), key=b"bully-agent machine 1", digest_size=16).hexdigest())

print("""
# receipt = private key, incarnation, receipt: BLAKE2s of 16 bytes over the incarnation, 4 bytes, big endian, keyed with
# BLAKE2s-256("bully-agent receipt 1") that is keyed with the private key""")
for private in privates[:4]:
    key = hashlib.blake2s(b"bully-agent receipt 1", key=private).digest()
    for incarnation in [0, 1, 2**32 - 1]:
        receipt = hashlib.blake2s(incarnation.to_bytes(4, "big"), key=key, digest_size=16)
        print("receipt =", private.hex(), incarnation, receipt.hexdigest())

print("\n# hosts = digest of a host list, its ids: the first 8 bytes of BLAKE2s-256(bully-agent hosts 1 | the ids, sorted)")
for n in [1, 2, 5]:
    ids = [identity(public(k)) for k in privates[4 : 4 + n]]
    text = b"".join(sorted(uuid.UUID(i).bytes for i in ids))
    print("hosts =", hashlib.blake2s(b"bully-agent hosts 1" + text).hexdigest()[:16], *ids)
