// Package browser looks at pages as people do, in a headless Chromium, and holds them against what people need of them:
// names, contrast, focus. Tests of whatever serves a page use it.
package browser

import (
	"context"
	_ "embed"
	"encoding/json"
	"fmt"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"
)

// Bound is how long a page may take to show what it should; a pass never waits it out.
const Bound = 30 * time.Second

// PicturesVariable names the directory that pictures are kept in; without it none are.
const PicturesVariable = "BULLY_PICTURES"

// programs are Chromium under the names that it has.
var programs = []string{"chromium-headless-shell", "chromium", "chromium-browser", "google-chrome"}

// Browser is one running browser.
type Browser struct {
	t   testing.TB
	ctx context.Context
}

// Open starts a browser for the test, which is skipped where there is none.
func Open(t testing.TB) *Browser {
	t.Helper()
	var path string
	for _, p := range programs {
		if found, err := exec.LookPath(p); err == nil {
			path = found
			break
		}
	}
	if path == "" {
		t.Skipf("skipped: no browser: none of %s is installed", strings.Join(programs, ", "))
	}
	options := append(chromedp.DefaultExecAllocatorOptions[:], chromedp.ExecPath(path), chromedp.UserDataDir(t.TempDir()),
		chromedp.Flag("disable-features", "Translate,OptimizationHints,MediaRouter,DialMediaRouteProvider"))
	if os.Geteuid() == 0 {
		options = append(options, chromedp.NoSandbox) // Chromium refuses root with one
	}
	allocator, end := chromedp.NewExecAllocator(context.Background(), options...)
	t.Cleanup(end)
	ctx, cancel := chromedp.NewContext(allocator)
	t.Cleanup(cancel)
	if err := chromedp.Do(ctx); err != nil {
		t.Fatalf("start %s: %v", path, err)
	}
	return &Browser{t: t, ctx: ctx}
}

// For is the same browser, for a test within the one that opened it.
func (b *Browser) For(t testing.TB) *Browser { return &Browser{t: t, ctx: b.ctx} }

// View is how a page is looked at.
type View struct {
	Width, Height int
	Dark          bool
	Still         bool // the user wants little motion
}

// String names the view, as in a file name.
func (v View) String() string {
	scheme := "light"
	if v.Dark {
		scheme = "dark"
	}
	return fmt.Sprintf("%d-%s", v.Width, scheme)
}

// Tab is one page that is open.
type Tab struct {
	t   testing.TB
	ctx context.Context

	mu       sync.Mutex
	asked    []string // addresses of all requests
	resumed  []string // Last-Event-ID of those that had one
	messages []string // errors that the browser noted
}

// Open opens the address.
func (b *Browser) Open(address string, v View) *Tab {
	b.t.Helper()
	ctx, cancel := chromedp.NewContext(b.ctx)
	b.t.Cleanup(cancel)
	tab := &Tab{t: b.t, ctx: ctx}
	scheme, motion := "light", "no-preference"
	if v.Dark {
		scheme = "dark"
	}
	if v.Still {
		motion = "reduce"
	}
	must(b.t, chromedp.Do(ctx)) // under its own context, which the tab then lives as long as
	must(b.t, chromedp.Listen(ctx, tab.note))
	call(tab, network.Enable, network.EnableParams{})
	call(tab, log.Enable, cdp.Empty{})
	call(tab, runtime.Enable, cdp.Empty{})
	call(tab, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{Features: []*emulation.MediaFeature{
		{Name: "prefers-color-scheme", Value: scheme}, {Name: "prefers-reduced-motion", Value: motion}}})
	tab.Do(chromedp.EmulateViewport(int64(v.Width), int64(v.Height)), chromedp.Navigate(address))
	return tab
}

func (tab *Tab) note(event any) {
	tab.mu.Lock()
	defer tab.mu.Unlock()
	switch e := event.(type) {
	case *network.EventRequestWillBeSent:
		tab.asked = append(tab.asked, e.Request.URL)
	case *network.EventRequestWillBeSentExtraInfo:
		for name, value := range e.Headers {
			if strings.EqualFold(name, "Last-Event-ID") {
				tab.resumed = append(tab.resumed, fmt.Sprint(value))
			}
		}
	case *log.EventEntryAdded:
		if e.Entry.Level == log.EntryLevelError || e.Entry.Level == log.EntryLevelWarning {
			tab.messages = append(tab.messages, e.Entry.Text+" "+e.Entry.URL)
		}
	case *runtime.EventExceptionThrown:
		text := e.ExceptionDetails.Text
		if x := e.ExceptionDetails.Exception; x != nil {
			text += " " + x.Description
		}
		tab.messages = append(tab.messages, text)
	}
}

// Do runs actions.
func (tab *Tab) Do(actions ...chromedp.Action[chromedp.Void]) {
	tab.t.Helper()
	ctx, cancel := context.WithTimeout(tab.ctx, Bound)
	defer cancel()
	if err := chromedp.Do(ctx, actions...); err != nil {
		tab.t.Fatalf("browser: %v\nit noted: %q", err, tab.Messages())
	}
}

// call sends one command of the protocol.
func call[P, R any](tab *Tab, command cdp.Command[P, R], params P) R {
	tab.t.Helper()
	ctx, cancel := context.WithTimeout(tab.ctx, Bound)
	defer cancel()
	result, err := chromedp.Call(ctx, command, params)
	must(tab.t, err)
	return result
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatalf("browser: %v", err)
	}
}

// Eval gives the value of an expression of JavaScript.
func Eval[T any](tab *Tab, expression string) T {
	tab.t.Helper()
	ctx, cancel := context.WithTimeout(tab.ctx, Bound)
	defer cancel()
	value, err := chromedp.Run(ctx, chromedp.Evaluate[T](expression, chromedp.EvalAwaitPromise))
	if err != nil {
		tab.t.Fatalf("evaluate %.200s: %v\nthe browser noted: %q", expression, err, tab.Messages())
	}
	return value
}

// Await waits until the expression is true.
func (tab *Tab) Await(expression string) {
	tab.t.Helper()
	const again = 50 * time.Millisecond
	for limit := time.Now().Add(Bound); !Eval[bool](tab, "!!("+expression+")"); time.Sleep(again) {
		if time.Now().After(limit) {
			tab.t.Fatalf("waited %v for %s\nthe page says:\n%s\nthe browser noted: %q", Bound, expression, tab.Text("body"), tab.Messages())
		}
	}
}

// AwaitText waits until what the selector finds contains the text.
func (tab *Tab) AwaitText(selector, text string) {
	tab.t.Helper()
	tab.Await(fmt.Sprintf("document.querySelector(%s)?.innerText.includes(%s)", quote(selector), quote(text)))
}

// Text is what the selector finds, as it can be read.
func (tab *Tab) Text(selector string) string {
	tab.t.Helper()
	return Eval[string](tab, fmt.Sprintf("document.querySelector(%s)?.innerText ?? ''", quote(selector)))
}

func quote(s string) string {
	text, _ := json.Marshal(s) // strings always have a JSON form
	return string(text)
}

// Press presses keys, such as kb.Tab.
func (tab *Tab) Press(keys string) {
	tab.t.Helper()
	tab.Do(chromedp.KeyEvent(keys))
}

// Messages are the errors and warnings that the browser noted: scripts that failed, policies that were broken, requests
// that were not answered.
func (tab *Tab) Messages() []string {
	tab.mu.Lock()
	defer tab.mu.Unlock()
	return slices.Clone(tab.messages)
}

// Resumed are the ids that streams of events were asked to resume after.
func (tab *Tab) Resumed() []string {
	tab.mu.Lock()
	defer tab.mu.Unlock()
	return slices.Clone(tab.resumed)
}

// ExpectOnly fails the test if anything was asked of anybody but the host of the address.
func (tab *Tab) ExpectOnly(address string) {
	tab.t.Helper()
	home, err := url.Parse(address)
	if err != nil {
		tab.t.Fatal(err)
	}
	tab.mu.Lock()
	defer tab.mu.Unlock()
	for _, asked := range tab.asked {
		if at, err := url.Parse(asked); err != nil || at.Host != home.Host || at.Scheme != home.Scheme {
			tab.t.Errorf("the page asked for %s: expected requests to %s alone", asked, home.Host)
		}
	}
	if len(tab.asked) == 0 {
		tab.t.Error("no request was seen: the test looks at the wrong events")
	}
}

// Picture keeps a picture of the whole page, if somebody wants pictures.
func (tab *Tab) Picture(name string) {
	tab.t.Helper()
	dir := os.Getenv(PicturesVariable)
	if dir == "" {
		return
	}
	ctx, cancel := context.WithTimeout(tab.ctx, Bound)
	defer cancel()
	const lossless = 100 // which makes it a PNG
	png, err := chromedp.Run(ctx, chromedp.FullScreenshot(lossless))
	must(tab.t, err)
	small, err := paletted(png)
	must(tab.t, err)
	if err := os.WriteFile(filepath.Join(dir, name+".png"), small, 0o644); err != nil {
		tab.t.Fatalf("keep picture: %v", err)
	}
}

//go:embed audit.js
var audit string

// ExpectAccessible fails the test with whatever keeps somebody from reading or using the page as it is now.
func (tab *Tab) ExpectAccessible() {
	tab.t.Helper()
	for _, complaint := range Eval[[]string](tab, audit) {
		tab.t.Error(complaint)
	}
}
