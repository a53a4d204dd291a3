package screen

import "io"

// Key is what the user pressed: a character, or one of the following.
type Key rune

// Keys that are no characters.
const (
	KeyUp Key = -iota - 1
	KeyDown
	KeyEnd // the keyboard has gone away
)

// KeyCtrlC arrives as a key: the terminal is not asked to make a signal of it.
const KeyCtrlC = Key(3)

// readKeys sends what is typed until the keyboard ends or done is closed. The goroutine that waits in Read lives until
// then or until the next key: a terminal cannot be interrupted.
func readKeys(keyboard io.Reader, done <-chan struct{}) <-chan Key {
	keys := make(chan Key)
	go func() {
		typed := make([]byte, 64)
		for {
			n, err := keyboard.Read(typed)
			pressed := decodeKeys(typed[:n])
			if err != nil {
				pressed = append(pressed, KeyEnd)
			}
			for _, k := range pressed {
				select {
				case keys <- k:
				case <-done:
					return
				}
			}
			if err != nil {
				return
			}
		}
	}()
	return keys
}

// decodeKeys takes the bytes of one read. An arrow comes as ESC [ A or ESC O A, whole; what we do not know is skipped.
func decodeKeys(typed []byte) (keys []Key) {
	for i := 0; i < len(typed); i++ {
		if typed[i] != 0x1b {
			keys = append(keys, Key(typed[i]))
			continue
		}
		if i+1 >= len(typed) || typed[i+1] != '[' && typed[i+1] != 'O' {
			continue // the escape key itself
		}
		for i += 2; i < len(typed) && typed[i] < '@'; i++ { // the parameters of longer sequences
		}
		if i >= len(typed) {
			break
		}
		switch typed[i] {
		case 'A':
			keys = append(keys, KeyUp)
		case 'B':
			keys = append(keys, KeyDown)
		}
	}
	return keys
}
