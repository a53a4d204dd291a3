package cli

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strconv"
	"time"

	"github.com/bully-agent/bully-agent/internal/fence"
)

// fencePatience is how long fence check waits for the file's lock. The others
// hold it for two syncs, so a longer wait means that one of them is stopped or
// the disk hangs.
const fencePatience = 10 * time.Second

var fenceCommand = command{
	name: "fence", usage: "refuse a former leader",
	subcommands: []command{fenceCheckCommand},
}

var fenceCheckCommand = command{
	name: "check", usage: "accept an epoch unless a newer one was here",
	about: `Compares an epoch with the highest that was ever accepted with the same file, and remembers it there. It exits with 0, or
		with 6 if the epoch is lower, or equal but another owner's. Put the file beside the resource that it protects, on the same
		storage, so that every writer sees the same one. It needs no agent.

		Exit codes: 0 accepted, and on disk; 6 refused; 2 no epoch was given; 5 another process held the file's lock; 1 the file
		cannot be read or written, or is no fence file. Anything but 0 means: do not write.`,
	examples: []string{
		program + " fence check --file ./fence && echo write",
		program + " fence check --file ./fence --epoch 42/0b6c7f52",
	},
	options: []option{
		{name: "file", value: "FILE", usage: "where the highest epoch is kept; begun if it is missing"},
		{name: "epoch", value: "EPOCH", usage: "COUNTER or COUNTER/OWNER; no owner is an owner of its own", fallback: "$BULLY_EPOCH/$BULLY_EPOCH_OWNER, which every hook has"},
		{name: "must-exist", usage: "do not begin a file: for storage that may not be mounted"},
		{name: "timeout", value: "TIME", usage: "wait so long for others that use the file", fallback: span(fencePatience)},
	},
	action: fenceCheck,
}

func fenceCheck(c *call) error {
	file := c.String("file")
	if file == "" {
		return usage("see "+c.path+" --help", "--file is missing: expected a file beside what it protects")
	}
	epoch, err := c.epoch()
	if err != nil {
		return err
	}
	patience := fencePatience
	if c.IsSet("timeout") {
		if patience, err = c.duration("timeout"); err != nil {
			return err
		}
	}
	ctx, cancel := context.WithTimeout(c.Context.Context, patience)
	defer cancel()
	err = fence.Check(ctx, file, epoch, fence.Options{MustExist: c.Bool("must-exist")})
	var refused *fence.Refused
	switch {
	case errors.As(err, &refused):
		return &failure{code: exitRefused, err: err, hint: "do not write: another leadership has taken over"}
	case errors.Is(err, fence.ErrBusy):
		return &failure{code: exitTimeout, err: fmt.Errorf("timed out after %v: %w", patience, err)}
	}
	return err
}

// epoch is the one of the flag, or else the one that a hook has got. The two are
// not mixed: the owner of the environment belongs to its counter.
func (c *call) epoch() (fence.Epoch, error) {
	if c.IsSet("epoch") {
		e, err := fence.ParseEpoch(c.String("epoch"))
		if err != nil {
			return e, usage("", "--epoch is %s: %w: expected COUNTER or COUNTER/OWNER", strconv.Quote(c.String("epoch")), err)
		}
		return e, nil
	}
	text := os.Getenv("BULLY_EPOCH")
	if text == "" {
		return fence.Epoch{}, usage("hooks have BULLY_EPOCH and BULLY_EPOCH_OWNER; elsewhere give --epoch COUNTER/OWNER",
			"--epoch is missing, and BULLY_EPOCH is not set")
	}
	if owner := os.Getenv("BULLY_EPOCH_OWNER"); owner != "" {
		text += "/" + owner
	}
	e, err := fence.ParseEpoch(text)
	if err != nil {
		return e, usage("", "BULLY_EPOCH and BULLY_EPOCH_OWNER are %s: %w: expected a counter and an id", strconv.Quote(text), err)
	}
	return e, nil
}
