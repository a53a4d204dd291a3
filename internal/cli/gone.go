package cli

// gone are commands and flags of earlier versions, each with what to use instead.
var gone = map[string]string{
	program + " handover":     "use " + program + " step-down --to NODE",
	program + " stand":        "use " + program + " step-down --end",
	program + " record":       "use " + program + " debug; the log has each step under --log-level trace",
	program + " replay":       "use the logs of all hosts under --log-level trace",
	program + " explain --if": useExplain, program + " explain --lose-hook": useExplain,
}

const useExplain = "use " + program + " explain, which names the next in rank, and " + program + " ok-to-stop, which says whether a quorum is left"
