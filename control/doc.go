// Package control serves and calls the agent's local API: HTTP and JSON over a
// unix socket of mode 0600.
//
//	GET  /v1/status                   Status
//	GET  /v1/leader                   Leader, or 404 with code "no_leader"
//	GET  /v1/members                  [Member]
//	GET  /v1/history                  [Leadership], oldest first
//	GET  /v1/events?since=&follow=    one Event per line (NDJSON)
//	POST /v1/reload                   204
//	POST /v1/step-down                204; {"for":"30s"}: does not stand again for so long
//	POST /v1/handover                 204; {"to":"NAME or ID"}
//	POST /v1/forget                   204; {"member":"NAME or ID"}: takes a voter out of the roster
//	POST /v1/leave                    not in this version
//
// A command is answered when it is done or has failed; its body is a JSON object
// of strings, or nothing.
//
// Every refusal is an APIError as JSON: {"error":…,"hint":…,"code":…}. The
// shapes are pinned by testdata/*.json. A name or a unit never changes within
// /v1; names are only added, so a client ignores what it does not know.
//
// To look by hand:
//
//	curl --unix-socket /run/bully-agent/agent.sock http://agent/v1/status
package control
