// Package page has the live page: one document, its style and its scripts, which ask the server that they come from for
// /v1/status, /v1/members, /v1/history, /v1/jobs and /v1/events, and nobody else.
//
// There is no build step: static/ is what the browser gets. page.html has the parts, feed.js asks, dom.js writes into the
// document, and each other script is one part of the page. What other hosts say becomes text there, never HTML; the
// browser is told to refuse it otherwise (policy).
package page

import (
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"io/fs"
	"net/http"
	"path"
	"strings"
	"time"
)

//go:embed static
var static embed.FS

// policy is what the browser lets the page do: load and ask its own origin, and make no HTML of text. Nobody frames it.
const policy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; base-uri 'none'; " +
	"form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'; trusted-types 'none'"

const (
	pageFile = "page.html"
	labFile  = "lab.js" // what only a lab has
	dir      = "/page/"
)

// Handler serves the page at / and its files below /page/, to GET and HEAD. It holds nothing back from whoever asks,
// for it knows nothing of the cluster.
func Handler() http.Handler { return handler(func(name string) bool { return name != labFile }, nil) }

// LabHandler serves the page with the part by which a lab is driven.
func LabHandler() http.Handler {
	return handler(func(string) bool { return true }, func(document string) string {
		const last = "</head>"
		return strings.Replace(document, last, `<script type="module" src="page/`+labFile+`"></script>`+"\n"+last, 1)
	})
}

// A file is what the browser gets under one path.
type file struct {
	body, kind, tag string
}

func handler(has func(name string) bool, change func(document string) string) http.Handler {
	files := map[string]file{}
	entries, err := fs.ReadDir(static, "static")
	if err != nil {
		panic("BUG: the page is not in the program: " + err.Error())
	}
	for _, e := range entries {
		content, err := fs.ReadFile(static, path.Join("static", e.Name()))
		if err != nil {
			panic("BUG: the page is not in the program: " + err.Error())
		}
		body := string(content)
		if e.Name() == pageFile && change != nil {
			body = change(body)
		}
		if has(e.Name()) {
			files[pathOf(e.Name())] = newFile(e.Name(), body)
		}
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		f, found := files[r.URL.Path]
		switch {
		case !found:
			http.NotFound(w, r)
		case r.Method != http.MethodGet && r.Method != http.MethodHead:
			w.Header().Set("Allow", "GET, HEAD")
			http.Error(w, "the page is read with GET", http.StatusMethodNotAllowed)
		default:
			f.serve(w, r)
		}
	})
}

func pathOf(name string) string {
	if name == pageFile {
		return "/"
	}
	return dir + name
}

// kinds are told, and not found out: what a host has in /etc/mime.types must not decide whether a script runs.
var kinds = map[string]string{".html": "text/html; charset=utf-8", ".css": "text/css; charset=utf-8", ".js": "text/javascript; charset=utf-8", ".svg": "image/svg+xml"}

func newFile(name, body string) file {
	sum := sha256.Sum256([]byte(body))
	return file{body: body, kind: kinds[path.Ext(name)], tag: `"` + hex.EncodeToString(sum[:8]) + `"`}
}

// serve sends the file, unless the browser has it: it asks each time, so that a page never outlives its agent's version.
func (f file) serve(w http.ResponseWriter, r *http.Request) {
	h := w.Header()
	h.Set("Content-Security-Policy", policy)
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("X-Frame-Options", "DENY")
	h.Set("Referrer-Policy", "no-referrer")
	h.Set("Cross-Origin-Opener-Policy", "same-origin")
	h.Set("Cross-Origin-Resource-Policy", "same-origin")
	h.Set("Cache-Control", "no-cache")
	h.Set("Etag", f.tag)
	h.Set("Content-Type", f.kind)
	http.ServeContent(w, r, "", time.Time{}, strings.NewReader(f.body))
}
