package config

import (
	"fmt"
	"strconv"
	"strings"
)

const mebibyte = 1 << 20

// memory is an amount of it in whole MiB, or off.
func memory(at func(*Config) *int, least, most int) field {
	expected := fmt.Sprintf(`whole MiB such as "16MiB", %d to %d, or "off"`, least, most)
	return field{
		parse: func(l *loader, v value) *Error {
			s, err := v.text(expected)
			if err != nil {
				return err
			}
			if s == "off" {
				*at(l.config) = 0
				return nil
			}
			digits, hasUnit := strings.CutSuffix(s, "MiB")
			n, bad := strconv.Atoi(digits)
			if bad != nil || !hasUnit || n < least || n > most || strconv.Itoa(n) != digits {
				return wrong("%s: expected %s", quote(s), expected)
			}
			*at(l.config) = n * mebibyte
			return nil
		},
		get: func(c *Config) any {
			if *at(c) == 0 {
				return "off"
			}
			return fmt.Sprintf("%dMiB", *at(c)/mebibyte)
		},
	}
}
