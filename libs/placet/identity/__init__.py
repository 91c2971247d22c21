"""Who is asking, and proof of it: JWTs of people, run grants, directory facts, signatures of events."""
