package record

import "reflect"

// EventNames are the names of all events that have a number.
func EventNames() []string { return namesOf(eventTypes) }

// EffectNames are the names of all effects that have a number.
func EffectNames() []string { return namesOf(effectTypes) }

func namesOf(types []reflect.Type) (names []string) {
	for _, t := range types {
		names = append(names, t.Name())
	}
	return names
}
