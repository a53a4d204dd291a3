package lab

import "io"

// key is what the user pressed: a character, or one of the following.
type key rune

const (
	keyUp key = -iota - 1
	keyDown
	keyEnd // the keyboard has gone away
)

const keyCtrlC = key(3)

// readKeys sends what is typed until the keyboard ends or done is closed. The goroutine that waits in Read lives until
// then or until the next key: a terminal cannot be interrupted.
func readKeys(keyboard io.Reader, done <-chan struct{}) <-chan key {
	keys := make(chan key)
	go func() {
		typed := make([]byte, 64)
		for {
			n, err := keyboard.Read(typed)
			pressed := decodeKeys(typed[:n])
			if err != nil {
				pressed = append(pressed, keyEnd)
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
func decodeKeys(typed []byte) (keys []key) {
	for i := 0; i < len(typed); i++ {
		if typed[i] != 0x1b {
			keys = append(keys, key(typed[i]))
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
			keys = append(keys, keyUp)
		case 'B':
			keys = append(keys, keyDown)
		}
	}
	return keys
}
