package identity

import (
	"encoding/hex"
	"strconv"
	"testing"
)

func TestVectorsOfReceipts(t *testing.T) {
	for _, v := range vectors(t, "receipt") {
		incarnation, err := strconv.ParseUint(v[1], 10, 32)
		if err != nil {
			t.Fatal(err)
		}
		got := FromBytes(unhex(t, v[0])).Receipt(uint32(incarnation))
		if hex.EncodeToString(got[:]) != v[2] {
			t.Errorf("receipt of life %s under %s is %x, want %s", v[1], v[0], got, v[2])
		}
	}
}

// Who has another key makes another receipt, and each life has its own.
func TestAReceiptIsOfOneLife(t *testing.T) {
	seen := make(map[Receipt]bool)
	for key := byte(1); key < 9; key++ {
		private := FromBytes([Size]byte{key})
		for life := uint32(0); life < 9; life++ {
			r := private.Receipt(life)
			if r.IsZero() || seen[r] || r != private.Receipt(life) {
				t.Fatalf("receipt %x of life %d comes twice, or is another the next time", r, life)
			}
			seen[r] = true
		}
	}
}
