package screen

import (
	"context"
	"time"
)

// Feed asks at once and again and again until ctx ends, in a goroutine of its own, so that the keyboard never waits for an
// answer. Who takes an answer calls it: a panic of ask comes out there, where the terminal is restored.
func Feed[T any](ctx context.Context, every time.Duration, ask func() T) <-chan func() T {
	answers := make(chan func() T)
	go func() {
		for {
			select {
			case answers <- caught(ask):
			case <-ctx.Done():
				return
			}
			select {
			case <-time.After(every):
			case <-ctx.Done():
				return
			}
		}
	}()
	return answers
}

func caught[T any](ask func() T) (answer func() T) {
	defer func() {
		if p := recover(); p != nil {
			answer = func() T { panic(p) }
		}
	}()
	got := ask()
	return func() T { return got }
}
