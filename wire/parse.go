package wire

import "encoding/binary"

// Parse reads the frame that fills b and overwrites *f with it. It takes any
// bytes without panic, allocates for a Payload alone, and keeps no reference to
// b. When it refuses them it returns one of this package's errors and leaves *f
// alone.
//
// It judges form only: whether cluster, sender and epoch are believable is for
// the caller (R1, R2, R3). A frame of a higher minor version may be longer
// than this version's; what is appended is ignored, as are the reserved flag
// and padding. Whether the voters of a ROSTER are different, and in order, is the
// caller's question too.
func Parse(b []byte, f *Frame) error {
	if err := check(b); err != nil {
		return err
	}
	getHeader(b, f)
	body(codec{body: b[headerSize : len(b)-trailerSize]}, f)
	return nil
}

// check looks at the fixed places first, then at the checksum, and only then
// at what the sender meant: the kind of a damaged frame is no news of a newer
// member.
func check(b []byte) error {
	switch {
	case len(b) < MinFrame:
		return ErrShort
	case b[0] != Magic0 || b[1] != Magic1:
		return ErrMagic
	case b[2]>>4 != version>>4:
		return ErrVersion
	case len(b) > MaxFrame || int(binary.BigEndian.Uint16(b[4:])) != len(b):
		return ErrLength
	}
	end := len(b) - trailerSize
	if checksum(b[:end]) != binary.BigEndian.Uint32(b[end:]) {
		return ErrChecksum
	}
	if b[seatAt]|b[seatAt+1] != 0 {
		return ErrSeat
	}
	return checkBody(Kind(b[3]), b[headerSize:end])
}

// checkBody says whether a body can be one of kind k.
func checkBody(k Kind, body []byte) error {
	switch {
	case k >= kindEnd || bodySizes[k] == 0:
		return unknown(k)
	case len(body) < int(bodySizes[k]):
		return ErrBody
	case k == Roster && body[rosterCount] > MaxVoters:
		return ErrVoters
	case payloadSizes[k] > 0:
		return checkPayload(k, body)
	}
	return nil
}

// unknown refuses a kind without a meaning.
func unknown(k Kind) error {
	if k >= kindOptional {
		return ErrOptional
	}
	return ErrKind
}

// checkPayload says whether the payload is all there, and no longer than Append
// writes.
func checkPayload(k Kind, body []byte) error {
	size := int(binary.BigEndian.Uint16(body[payloadSizes[k]-1:]))
	if size > MaxPayload || size > len(body)-int(bodySizes[k]) {
		return ErrPayload
	}
	return nil
}

// getHeader reads the header of doc.go's diagram from a checked frame, and
// leaves the body fields zero. The fields are set one by one, since a literal
// would be built elsewhere and copied, at almost twice the cost of Parse.
func getHeader(b []byte, f *Frame) {
	_ = b[MinFrame-1]
	*f = Frame{}
	f.Minor = b[2] & 0x0f
	f.Kind = Kind(b[3])
	f.Algo = Algo(b[6])
	f.Flags = Flags(b[7]) &^ reserved
	f.Cluster = binary.BigEndian.Uint32(b[8:])
	f.ConfigHash = binary.BigEndian.Uint32(b[12:])
	f.Sender = ID(b[16:32])
	f.Incarnation = binary.BigEndian.Uint32(b[32:])
	f.Nonce = binary.BigEndian.Uint32(b[36:])
	f.Seq = binary.BigEndian.Uint32(b[40:])
	f.Round = binary.BigEndian.Uint32(b[44:])
	f.Epoch.Counter = binary.BigEndian.Uint64(b[48:])
	f.Epoch.Owner = ID(b[56:72])
	f.Priority = binary.BigEndian.Uint16(b[72:])
}
