package api

import (
	"webring/core"
	"webring/core/flat"
)

// straight answers the requests that nearly all are, and gives false for any
// other: a member's page asks for its neighbours by its slug, and links lead to
// members by theirs. It decides nothing: what the general way finds in many steps
// it recognises in a few, and the same functions write the answer.
//
// Nothing has to be decoded, or to be looked for an end: what stands behind one
// of these beginnings and is the slug of a member, letter for letter, has nothing
// in it that could mean anything else. Whoever asks in other words, or for
// somebody who is not in the ring, goes the general way.
func straight(st *core.State, target []byte, r *Response) bool {
	switch {
	case flat.Begins(target, "/next?from="):
		if o, ok := st.Named(target[len("/next?from="):]); ok {
			redirect(r, st, st.Next(o))
			return true
		}
	case flat.Begins(target, "/prev?from="):
		if o, ok := st.Named(target[len("/prev?from="):]); ok {
			redirect(r, st, st.Prev(o))
			return true
		}
	case flat.Begins(target, "/api/ring/"):
		return straightRing(st, target[len("/api/ring/"):], r)
	case flat.Begins(target, "/api/widget") && flat.Begins(target[len("/api/"):], "widget?from="):
		if o, ok := st.Named(target[len("/api/widget?from="):]); ok {
			widget(r, st, o, true)
			return true
		}
	}
	return false
}

// straightRing is straight for what stands below /api/ring/.
func straightRing(st *core.State, target []byte, r *Response) bool {
	switch {
	case flat.Begins(target, "next?from="):
		if o, ok := st.Named(target[len("next?from="):]); ok {
			traversal(r, st, next, st.Next(o))
			return true
		}
		return false
	case flat.Begins(target, "prev?from="):
		if o, ok := st.Named(target[len("prev?from="):]); ok {
			traversal(r, st, prev, st.Prev(o))
			return true
		}
		return false
	}
	switch string(target) {
	case "next", "prev", "random": // endpoints, whatever members are called
		return false
	}
	o, ok := st.Named(target)
	if ok {
		detail(r, st, o)
	}
	return ok
}
