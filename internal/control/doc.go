// Package control serves and calls the agent's local API: HTTP and JSON over a
// unix socket of mode 0600.
//
//	GET  /v1/status                   Status
//	GET  /v1/leader                   Leader, or 404 with code "no_leader"
//	GET  /v1/members                  [Member]
//	GET  /v1/history                  [Leadership], oldest first
//	GET  /v1/events?since=&follow=    one Event per line (NDJSON)
//	GET  /v1/lease?follow=&grace=     Lease; with follow one per line, at each change and renewal
//	GET  /v1/ok-to-stop               OKToStop
//	GET  /v1/keys                     Keys: ids, never a key
//	GET  /v1/hooks                    [HookSetting]
//	GET  /v1/hooks/runs?seq=          [HookRun], oldest first; with seq one of them, with its output
//	POST /v1/hooks/run                HookRun; {"event":"become-leader"}: run again what belongs to the present state
//	GET  /v1/jobs?next=               [Job], each with so many of its next slots
//	GET  /v1/jobs/runs?job=           [JobRun], oldest first
//	GET  /v1/jobs/output?run=         {"run":…,"output":…}: the end of what it printed on this host
//	POST /v1/job-run                  204; {"job":"NAME"}: as are the next two; when the command has started
//	POST /v1/job-pause                204; on whatever host
//	POST /v1/job-resume               204; on whatever host; with "from_now":"true" also a job that ran ahead of the present
//	POST /v1/reload                   204
//	POST /v1/step-down                204; {"for":"30s"}: does not stand again for so long
//	POST /v1/stand                    204; ends that time
//	POST /v1/maintenance              204; {"state":"on"}, or "off"; on with "reason", "for", and "force":"true": though nobody else can lead
//	POST /v1/handover                 204; {"to":"NAME or ID"}
//	POST /v1/forget                   204; {"member":"NAME or ID"}: takes a voter out of the roster; one that is alive only with "force":"true"
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
