package access

import "io/fs"

// Kind names what a path leads to, for people: "a FIFO".
func Kind(mode fs.FileMode) string {
	switch mode.Type() {
	case 0:
		return "a file"
	case fs.ModeDir:
		return "a directory"
	case fs.ModeSymlink:
		return "a symbolic link"
	case fs.ModeNamedPipe:
		return "a FIFO"
	case fs.ModeSocket:
		return "a socket"
	}
	return "a device"
}
