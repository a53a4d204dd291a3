// Package mutants holds no code, only tests: they take rules out, one at a time, and
// show that what is checked elsewhere notices. The rules are those of the election and of
// singleton jobs, and of the processes, the sealing and the membership around them.
//
// The code that ships has no switches. A mutant is a text in testdata/mutants that
// names a rule of docs/protocol.md, or the page or package comment that states it, and
// replaces the lines that obey it; the toolchain's -overlay builds the simulator
// and the tests of the rule's package with those lines. Of what the simulator plays,
// schedules are played first, until an invariant breaks that holds without the mutant;
// then the directed tests run that the text names.
//
// By default each mutant is applied and type-checked, so that none rots, and two
// are run. BULLY_MUTANTS=all (make mutants) runs them all and fails if one
// survives; another value runs those whose name contains it. BULLY_MUTANTS_BY=schedules or
// tests tries only the one, where the other was tried before.
//
// # A mutant's text
//
//	rule: R4                       its numbers, or the document and heading that state it
//	out: a frame of an epoch …     what the rule says
//	tests: TestR4_EpochOrder       directed tests that must fail without it
//	in: agent                      packages of these tests, if not those of the changed files
//	schedules: quorum              "available", "quorum", "none"; both without this line
//	-- old election/follow.go --
//	lines that the file has exactly once
//	-- new --
//	what takes their place
//
// A mutant may replace in several places: the two sections come in pairs.
package mutants
