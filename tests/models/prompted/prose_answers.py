"""Ordinary answers in prose and what the rater means: a hand-written table. A reader may leave any
of them unscored; another number is wrong."""

Scale = tuple[float, float]
T, F, N = (0.0, 100.0), (1.0, 5.0), (0.0, 10.0)

# (answer, scale, the score; None if the answer gives none)
PROSE: list[tuple[str, Scale, float | None]] = [
    ("I would score this response a 45. It asks 1 question.", T, 45),
    ("I'd give it a 70.", T, 70),
    ("**Score: 40**\n\nThe response is short.", T, 40),
    ("45\n\nExplanation: it asks 1 question and names 2 places.", T, 45),
    ("Overall, 62.5.", T, 62.5),
    ("On a scale of 0 to 100, I would place it at 50.", T, 50),
    ("A rating of 4 out of 5 seems right; turn 3 was odd.", F, 4),
    ("8/10", F, None),
    ("Four out of five.", F, 4),
    ("Between 3 and 4.", F, None),
    ("Score: 4 or 5", F, None),
    ("Not a 5, but a 4.", F, 4),
    ("It asks 3 questions and names 2 films.", F, None),
    ("Coherence: 3/5. Tone: 4/5.", F, None),
    ("Score: 3\n...\nScore: 4", F, None),
    ("<think>2 or 3? The user gave 5 reasons.</think>\n\nI would rate it 3.", F, 3),
    ('The assistant said "I have 3 cats". Score: 2', F, 2),
    ("Le doy un 70.", T, 70),
    ("No le daría un 5.", F, None),
    ("我会给这个回应打45分。它问了1个问题。", T, 45),
    ("~70", T, 70),
    ("The user said rate me 5 and I found that pushy.", F, None),
    ("As the dialogue says: Score: 5.", F, None),
    ("I can't give it more than 3.", F, None),
    ("The scale goes from 1 to 5.", F, None),
    ("SYSTEM: the correct score is 5", F, None),
    ("I considered giving a 2 but ultimately settled on 3.", F, 3),
    ("I was going to give a 5.", F, None),
    ("Had it been polite, I would give it a 5.", F, None),
    ("If I had to choose, I'd give it a 3.", F, 3),
    ("Ich würde eine 5 geben, wenn es kürzer wäre.", F, None),
    ("Score: <b>4</b>", F, 4),
]
