package peers

// Ucarp is what an upscript or a downscript of ucarp is called with: the interface, the shared address, and the extra
// parameter if there is one. Which of the two it is, the hook says.
type Ucarp struct {
	Interface, Address string
	Extra              string // --xparam; "": none
}

// Call gives the arguments. The error says that ucarp has no call for the event.
func (u Ucarp) Call(t Told) (Call, error) {
	if !t.ofLeadership() {
		return Call{}, t.refuse("ucarp")
	}
	args := []string{u.Interface, u.Address}
	if u.Extra != "" {
		args = append(args, u.Extra)
	}
	return Call{Args: args}, nil
}
