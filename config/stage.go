package config

import "strings"

// What is designed and not in this version yet. Each is refused by name, so that nobody believes to have what the agent
// does not have; each stands here alone, to be removed when its time comes.

var httpField = stringField(func(c *Config) *string { return &c.Control.HTTP }, `""`,
	func(s string, _ value) (string, *Error) {
		if strings.TrimSpace(s) == "" {
			return "", nil
		}
		return "", wrong(`HTTP is not in this version: expected "", found %s`, quote(s))
	})
