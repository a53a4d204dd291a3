package browser

import (
	"bytes"
	"cmp"
	"fmt"
	"image"
	"image/color"
	"image/png"
	"maps"
	"slices"
)

// paletted encodes a PNG anew with the 256 colours that it has most of, and the nearest of them for each other one: a page has a few
// colours and the edges of its type, and takes a quarter of the bytes.
func paletted(file []byte) ([]byte, error) {
	seen, err := png.Decode(bytes.NewReader(file))
	if err != nil {
		return nil, fmt.Errorf("decode picture: %w", err)
	}
	count := map[color.RGBA]int{}
	area := seen.Bounds()
	at := func(x, y int) color.RGBA { return color.RGBAModel.Convert(seen.At(x, y)).(color.RGBA) }
	for y := area.Min.Y; y < area.Max.Y; y++ {
		for x := area.Min.X; x < area.Max.X; x++ {
			count[at(x, y)]++
		}
	}
	most := slices.SortedFunc(maps.Keys(count), func(a, b color.RGBA) int {
		return cmp.Or(count[b]-count[a], int(a.R)-int(b.R), int(a.G)-int(b.G), int(a.B)-int(b.B))
	})
	var few color.Palette
	for _, c := range most[:min(len(most), 256)] {
		few = append(few, c)
	}
	nearest := map[color.RGBA]uint8{}
	for c := range count {
		nearest[c] = uint8(few.Index(c))
	}
	out := image.NewPaletted(area, few)
	for y := area.Min.Y; y < area.Max.Y; y++ {
		for x := area.Min.X; x < area.Max.X; x++ {
			out.SetColorIndex(x, y, nearest[at(x, y)])
		}
	}
	var b bytes.Buffer
	if err := (&png.Encoder{CompressionLevel: png.BestCompression}).Encode(&b, out); err != nil {
		return nil, fmt.Errorf("encode picture: %w", err)
	}
	return b.Bytes(), nil
}
