package jobs

import (
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"strconv"
	"strings"
)

// The fields of a cron expression, and what ~ alone stands for in them: a value
// that comes in every cycle, so no day after the 28th and no second Sunday.
var fields = [...]struct {
	name      string
	low, high int // what is allowed
	spread    int // the highest value of ~ without a bound of its own
}{
	{"minute", 0, 59, 59},
	{"hour", 0, 23, 23},
	{"day of month", 1, 31, 28},
	{"month", 1, 12, 12},
	{"day of week", 0, 7, 6},
}

// settle replaces every ~ of a field by the numbers that it means for this job,
// and refuses what the parser would take although no crontab has it.
func settle(text string, field int, job string) (string, error) {
	parts := strings.Split(text, ",")
	for i, part := range parts {
		switch {
		case part == "":
			return "", fmt.Errorf("%s: nothing between commas in %q", fields[field].name, text)
		case len(part) > 1 && strings.ContainsAny(part[:1], "*?") && part[1] != '/':
			return "", fmt.Errorf("%s: expected nothing or a step after %q in %q", fields[field].name, part[:1], part)
		case strings.Contains(part, "~"):
			values, err := spread(part, field, job)
			if err != nil {
				return "", fmt.Errorf("%s: %w", fields[field].name, err)
			}
			parts[i] = values
		}
	}
	return strings.Join(parts, ","), nil
}

// spread chooses for one low~high/step: without a step one value of the range,
// with a step every step-th value from an offset below the step.
func spread(part string, field int, job string) (string, error) {
	bounds, step, stepped := strings.Cut(part, "/")
	low, high, err := ends(bounds, field)
	if err != nil {
		return "", err
	}
	if !stepped {
		return strconv.Itoa(low + offset(job, field, high-low+1)), nil
	}
	every, err := strconv.Atoi(step)
	if err != nil || every < 1 || every > high-low {
		return "", fmt.Errorf("step of %q: expected a number from 1 to %d", part, high-low)
	}
	var values []string
	for v := low + offset(job, field, every); v <= high; v += every {
		values = append(values, strconv.Itoa(v))
	}
	return strings.Join(values, ","), nil
}

// ends reads low~high, of which either may be missing.
func ends(text string, field int) (low, high int, err error) {
	f := fields[field]
	low, high = f.low, f.spread
	left, right, _ := strings.Cut(text, "~")
	if left != "" {
		if low, err = strconv.Atoi(left); err != nil {
			return 0, 0, fmt.Errorf("%q: expected a number before ~", text)
		}
	}
	if right != "" {
		if high, err = strconv.Atoi(right); err != nil {
			return 0, 0, fmt.Errorf("%q: expected a number after ~", text)
		}
	}
	if low < f.low || high > f.high || low > high {
		return 0, 0, fmt.Errorf("%q: expected low~high within %d to %d", text, f.low, f.high)
	}
	return low, high, nil
}

// offset is a number below n that depends on the job's name and the field
// alone: the same on every host and for ever. Each field has its own, so that
// jobs that share a minute do not share the hour too.
func offset(job string, field, n int) int {
	sum := sha256.Sum256([]byte(job + "\x00" + fields[field].name))
	return int(binary.BigEndian.Uint64(sum[:8]) % uint64(n))
}
