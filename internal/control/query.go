package control

import (
	"fmt"
	"net/http"
	"net/url"
	"strconv"
)

// parseQuery hands the value of each parameter to its reader. It refuses what
// has none: a mistyped parameter would otherwise change the answer silently.
// expected is the refusal's hint.
func parseQuery(raw, expected string, readers map[string]func(value string) error) error {
	bad := func(format string, args ...any) error {
		return &APIError{Status: http.StatusBadRequest, Message: fmt.Sprintf(format, args...), Hint: expected}
	}
	values, err := url.ParseQuery(raw)
	if err != nil {
		return bad("the query is malformed")
	}
	for name, given := range values {
		read, known := readers[name]
		switch {
		case !known:
			return bad("unknown parameter %q", name)
		case len(given) > 1:
			return bad("%q is given twice", name)
		}
		if err := read(given[0]); err != nil {
			return bad("%s is %q", name, given[0])
		}
	}
	return nil
}

// readSwitch reads a parameter that may stand alone, as in "?follow".
func readSwitch(to *bool) func(string) error {
	return func(s string) (err error) {
		if s == "" {
			*to = true
			return nil
		}
		*to, err = strconv.ParseBool(s)
		return err
	}
}
