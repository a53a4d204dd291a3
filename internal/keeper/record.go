package keeper

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"github.com/bully-agent/bully-agent/hooks"
	"github.com/bully-agent/bully-agent/internal/durable"
	"github.com/bully-agent/bully-agent/internal/ending"
	"github.com/bully-agent/bully-agent/internal/sidecar"
)

// fileName is a file in the state directory whose lock a keeper holds for as long as it
// lives: whoever gets it knows that there is none.
const fileName = "keeper.json"

// patienceWith is how long a keeper may work for an agent that is dead: it ends what
// runs, and the lose-leadership hook has what is left of the lease, and then its timeout.
func patienceWith(cfg hooks.Config) time.Duration {
	return sidecar.Room + cfg.Longest() + cfg.Grace + 2*ending.Unkillable
}

// lockFile gives the locked file. It waits for the keeper of an earlier life that still
// works, and says so; one that works for longer than it may is killed.
func lockFile(ctx context.Context, dir string, waits func(process int)) (*os.File, error) {
	file, err := durable.Open(filepath.Join(dir, fileName), os.O_RDWR|os.O_CREATE)
	if err != nil {
		return nil, err
	}
	err = sidecar.Outwait(ctx, file, func() sidecar.Owner {
		n := sidecar.Owner{}
		if text, err := io.ReadAll(io.NewSectionReader(file, 0, 1<<10)); err == nil {
			_ = json.Unmarshal(text, &n) // it may not have come to say
		}
		waits(n.Process)
		return n
	})
	if err != nil {
		file.Close()
		if errors.Is(err, sidecar.ErrStillWorks) {
			err = errors.New("the keeper of the last run still works")
		}
		return nil, fmt.Errorf("%s: %w", file.Name(), err)
	}
	return file, nil
}
