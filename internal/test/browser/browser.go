// Package browser looks at pages as people do, in a headless Chromium, and holds them against what people need of them:
// names, contrast, focus. Tests of whatever serves a page use it.
package browser

import (
	_ "embed"
	"encoding/json"
	"errors"
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
)

// Bound is how long a page may take to show what it should; a pass never waits it out.
const Bound = 30 * time.Second

// PicturesVariable names the directory that pictures are kept in; without it none are.
const PicturesVariable = "BULLY_PICTURES"

// programs are Chromium under the names that it has.
var programs = []string{"chromium-headless-shell", "chromium", "chromium-browser", "google-chrome"}

// switches are what the browser is started with: without what it would ask of others or do by itself, and no slower for a tab that
// nobody sees.
var switches = []string{"--headless", "--remote-debugging-pipe", "--no-first-run", "--disable-background-networking", "--disable-sync",
	"--disable-extensions", "--disable-breakpad", "--disable-default-apps", "--metrics-recording-only", "--disable-dev-shm-usage",
	"--disable-background-timer-throttling", "--disable-backgrounding-occluded-windows", "--disable-renderer-backgrounding",
	"--force-color-profile=srgb", "--hide-scrollbars", "--mute-audio",
	"--disable-features=Translate,OptimizationHints,MediaRouter,DialMediaRouteProvider"}

// Browser is one running browser.
type Browser struct {
	t testing.TB
	c *client
}

// The browser of this process is started for the first test that wants it, and ends with the last one that has it.
var (
	sharing sync.Mutex
	shared  *client // nil: none runs
)

// Open gives the test a browser, which other tests may have tabs of. It is skipped where there is none.
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
	c, err := share(path)
	if err != nil {
		t.Fatalf("start %s: %v", path, err)
	}
	t.Cleanup(func() { c.leave() })
	return &Browser{t: t, c: c}
}

// share gives one more test the browser of this process, or another one where that has died.
func share(path string) (*client, error) {
	sharing.Lock()
	defer sharing.Unlock()
	if shared == nil || shared.isGone() {
		c, err := start(path)
		if err != nil {
			return nil, err
		}
		shared = c
	}
	shared.sharers++
	return shared, nil
}

// leave ends the browser with the last test that has it.
func (c *client) leave() {
	sharing.Lock()
	defer sharing.Unlock()
	if c.sharers--; c.sharers > 0 {
		return
	}
	if shared == c {
		shared = nil
	}
	c.end()
}

// For is the same browser, for a test within the one that opened it.
func (b *Browser) For(t testing.TB) *Browser { return &Browser{t: t, c: b.c} }

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
	t       testing.TB
	c       *client
	session string

	mu       sync.Mutex
	asked    []string // addresses of all requests
	resumed  []string // Last-Event-ID of those that had one
	messages []string // errors that the browser noted
}

// Open opens the address, and returns once it is loaded.
func (b *Browser) Open(address string, v View) *Tab {
	b.t.Helper()
	var made struct{ BrowserContextID, TargetID, SessionID string }
	must(b.t, b.c.call("", "Target.createBrowserContext", nil, &made)) // with nothing of other tabs
	must(b.t, b.c.call("", "Target.createTarget", params{"url": "about:blank", "browserContextId": made.BrowserContextID}, &made))
	must(b.t, b.c.call("", "Target.attachToTarget", params{"targetId": made.TargetID, "flatten": true}, &made))
	b.t.Cleanup(func() {
		must(b.t, b.c.call("", "Target.disposeBrowserContext", params{"browserContextId": made.BrowserContextID}, nil))
		b.c.forget(made.SessionID)
	})
	tab := &Tab{t: b.t, c: b.c, session: made.SessionID}
	b.c.listen(tab.session, tab.note)
	for _, domain := range []string{"Network", "Log", "Runtime", "Page"} {
		tab.call(domain+".enable", nil, nil)
	}
	tab.call("Emulation.setFocusEmulationEnabled", params{"enabled": true}, nil) // one tab of all has the focus else
	tab.Look(v)
	var came struct{ ErrorText string }
	tab.call("Page.navigate", params{"url": address}, &came)
	if came.ErrorText != "" {
		b.t.Fatalf("browser: open %s: %s", address, came.ErrorText)
	}
	tab.Await(`location.href !== "about:blank" && document.readyState === "complete"`) // the blank page is complete, too
	return tab
}

// Look has the page looked at in another way, as it is.
func (tab *Tab) Look(v View) {
	tab.t.Helper()
	scheme, motion := "light", "no-preference"
	if v.Dark {
		scheme = "dark"
	}
	if v.Still {
		motion = "reduce"
	}
	tab.call("Emulation.setEmulatedMedia", params{"features": []params{
		{"name": "prefers-color-scheme", "value": scheme}, {"name": "prefers-reduced-motion", "value": motion}}}, nil)
	tab.call("Emulation.setDeviceMetricsOverride", params{"width": v.Width, "height": v.Height, "deviceScaleFactor": 1, "mobile": false}, nil)
	tab.Await(fmt.Sprintf("innerWidth === %d", v.Width))
}

// noted are the parts of events that the tests ask about.
type noted struct {
	Request          struct{ URL string }
	Headers          map[string]string
	Entry            struct{ Level, Text, URL string }
	ExceptionDetails exception
}

type exception struct {
	Text      string
	Exception struct{ Description string }
}

// String is what was thrown, and where.
func (e exception) String() string { return e.Text + " " + e.Exception.Description }

func (tab *Tab) note(method string, params json.RawMessage) {
	tab.mu.Lock()
	defer tab.mu.Unlock()
	var e noted
	if err := json.Unmarshal(params, &e); err != nil {
		tab.messages = append(tab.messages, fmt.Sprintf("an event that the test cannot read: %s: %v", method, err))
	}
	switch method {
	case "Network.requestWillBeSent":
		tab.asked = append(tab.asked, e.Request.URL)
	case "Network.requestWillBeSentExtraInfo":
		for name, value := range e.Headers {
			if strings.EqualFold(name, "Last-Event-ID") {
				tab.resumed = append(tab.resumed, value)
			}
		}
	case "Log.entryAdded":
		if e.Entry.Level == "error" || e.Entry.Level == "warning" {
			tab.messages = append(tab.messages, e.Entry.Text+" "+e.Entry.URL)
		}
	case "Runtime.exceptionThrown":
		tab.messages = append(tab.messages, e.ExceptionDetails.String())
	}
}

// call sends one command of the protocol to the tab.
func (tab *Tab) call(method string, p params, result any) {
	tab.t.Helper()
	if err := tab.c.call(tab.session, method, p, result); err != nil {
		tab.t.Fatalf("browser: %v\nit noted: %q", err, tab.Messages())
	}
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatalf("browser: %v", err)
	}
}

// evaluated is what the browser answers when it has evaluated an expression.
type evaluated struct {
	Result           struct{ Value json.RawMessage }
	ExceptionDetails *exception
}

// evaluate has the browser evaluate an expression of JavaScript.
func (tab *Tab) evaluate(expression string) (said evaluated, err error) {
	p := params{"expression": expression, "returnByValue": true, "awaitPromise": true}
	return said, tab.c.call(tab.session, "Runtime.evaluate", p, &said)
}

// read takes the value into a variable; what was thrown ends the test.
func (tab *Tab) read(expression string, said evaluated, value any) {
	tab.t.Helper()
	if said.ExceptionDetails != nil {
		tab.t.Fatalf("evaluate %.200s: %v\nthe browser noted: %q", expression, said.ExceptionDetails, tab.Messages())
	}
	if err := json.Unmarshal(said.Result.Value, value); err != nil {
		tab.t.Fatalf("evaluate %.200s: %v: %s", expression, err, said.Result.Value)
	}
}

// Eval gives the value of an expression of JavaScript.
func Eval[T any](tab *Tab, expression string) (value T) {
	tab.t.Helper()
	said, err := tab.evaluate(expression)
	if err != nil {
		tab.t.Fatalf("browser: %v\nit noted: %q", err, tab.Messages())
	}
	tab.read(expression, said, &value)
	return value
}

// Await waits until the expression is true. The browser evaluates nothing while the page goes on to another.
func (tab *Tab) Await(expression string) {
	tab.t.Helper()
	const again = 50 * time.Millisecond
	for limit := time.Now().Add(Bound); ; time.Sleep(again) {
		said, err := tab.evaluate("!!(" + expression + ")")
		isTrue := false
		switch {
		case err == nil:
			tab.read(expression, said, &isTrue)
		case !errors.As(err, new(refusal)):
			tab.t.Fatalf("browser: %v\nit noted: %q", err, tab.Messages())
		}
		if isTrue {
			return
		}
		if time.Now().After(limit) {
			tab.t.Fatalf("waited %v for %s: %v\nthe page says:\n%s\nthe browser noted: %q", Bound, expression, err, tab.Text("body"), tab.Messages())
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

// keys are those that tests press: their codes, and what they type.
var keys = map[string]struct {
	code, text string
	number     int
}{"Tab": {"Tab", "", 9}, " ": {"Space", " ", 32}}

// Press presses the key that KeyboardEvent.key has that name for, and lets it go.
func (tab *Tab) Press(name string) {
	tab.t.Helper()
	k, is := keys[name]
	if !is {
		tab.t.Fatalf("browser: no key %q in keys", name)
	}
	p := params{"type": "keyDown", "key": name, "code": k.code, "windowsVirtualKeyCode": k.number, "text": k.text}
	tab.call("Input.dispatchKeyEvent", p, nil)
	p["type"], p["text"] = "keyUp", ""
	tab.call("Input.dispatchKeyEvent", p, nil)
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
	var taken struct{ Data []byte }
	tab.call("Page.captureScreenshot", params{"format": "png", "captureBeyondViewport": true}, &taken)
	small, err := paletted(taken.Data)
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
