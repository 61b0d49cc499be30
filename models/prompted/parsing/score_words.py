"""The words by which a text says which of its numbers is the score, in the project's languages.

Tables only; candidates.py puts them together. Each entry is a piece of a regular expression without
unbounded repetition.
"""

from __future__ import annotations

# What a score is called.
LABELS = (
    *("score", "scores", "rating", "label", "grade", "rate", "mark", "verdict"),
    *("puntuación", "puntuacion", "puntaje", "calificación", "calificacion", "valoración"),
    *("my answer", "final answer", "nota", "评分", "分数", "得分", "打分", "总分", "评价为"),
    *("評分", "分數"),
    *("bewertung", "punktzahl", "note", "wertung", "évaluation", "pontuação", "avaliação"),
    *("punteggio", "voto", "valutazione", "スコア", "評価", "点数", "得点", "оценка", "التقييم"),
)
# These too, with a colon.
LABELS_WITH_COLON = ("answer", "assessment", "evaluation", "respuesta", "evaluación", "答案")
# Somebody who rates, speaking for himself; the number follows in the same clause.
RATES = (
    r"\b(?:i|we|let me)(?:['’](?:d|ll|m|ve))?\s(?:\w+\s){0,4}?"
    r"(?:rate|score|give|grade|assign|award|rank|put|place|mark|call|go with|settle on|rating"
    r"|giving|scoring|rated|scored|gave|assigned)\b",
    r"\b(?:can|could|should|would|will|may|might|must|is|be|was|been)\s(?:\w+\s){0,2}?"
    r"(?:rated|scored|given|graded|assigned|awarded|ranked)\b",
    r"\b(?:deserves?|earns?|merits?|warrants?|gets|receives|scores|lands at|comes to|sits at"
    r"|lands on|worth|settled on|went with|opted for|chose)\b",
    r"\b(?:doy|daría|pongo|pondría|otorgo|otorgaría|asigno|asignaría|califico|calificaría|puntúo"
    r"|puntuaría|valoro|valoraría|evalúo|evaluaría|merece|obtiene|se lleva)\b",
    r"\b(?:ich|würde|vergebe|gebe|bewerte|verdient|erhält|bekommt|je|donne|donnerais|mets|mettrais"
    r"|attribue|noterais|mérite|dou|daria|atribuo|atribuiria|avalio|avaliaria|darei|assegno|merita)\b",
    r"我(?:会|想|愿|觉得|认为|打算|倾向|个人)?[^\W\d]{0,14}(?:给|打|评|評|給)",
    r"(?:值得|应得|可得|可以得|可以给|应该给|建议给|给予|给出|評価は)",
)
# Directly before the number; what was said before it led there.
CONCLUDES = (
    r"\b(?:so|thus|hence|therefore|overall|in total|altogether|i(?:['’]d| would)? say"
    r"|i (?:think|believe|feel)(?: that)?)",
    r"\b(?:así que|por lo tanto|por tanto|en total|(?:diría|creo)(?: que)?)",
    r"\b(?:also|daher|insgesamt|donc|au total|je dirais|portanto|então|quindi)",
    r"\b(?:but|sino|sondern|mais|mas|ma)\s(?:rather\s|plutôt\s)?(?:an?|une?|eine?|uma?)\s",
    r"(?:所以|因此|总体|总的来说|综上|我说)",
    r"\bboxed",  # LaTeX, whose marks are blanks here
)
# Between a verb, a label or a conclusion and the number.
SOFTENERS = (
    r"(?:an?|the|about|around|roughly|approximately|maybe|perhaps|probably|exactly|only|just|solid"
    r"|strong|weak|low|high|full|fair|perfect|un|una|unos|de|ein|eine|einen|etwa|une?|um|uma|uno"
    r"|alrededor de|aproximadamente|environ|cerca de|circa|大概|大约|约|个|一个)"
)
# What a number may be followed by and still be a score; other words make it a count of something.
_FOLLOWERS = (
    "as at and based because but due for from given here i if in is it on out overall since so",
    "that the this though to was which while with would my although points point pts stars star",
    "percent porque ya por en debido puesto dado pero y aunque puntos punto es de sobre estrellas",
    "weil da für auf und aber punkte punkten sterne sternen geben vergeben von denn",
    "car parce pour sur et mais étoiles",
    "pois em pontos e mas perché per su punti ma",
)
FOLLOWERS = frozenset(word for line in _FOLLOWERS for word in line.split())
FOLLOWING_CHARACTERS = frozenset("分点點因由但所和或，。、")
# A number after one of these names a thing: turn 3.
THINGS = (
    r"(?:turns?|questions?|steps?|items?|points?|criteri(?:on|a)|numbers?|part|section|responses?"
    r"|answers?|messages?|lines?|options?|versions?|chapter|gpt|level|utterances?|dialogues?|example"
    r"|exchange|turno|pregunta|paso|respuesta|mensaje|línea|número|opción|frage|schritt|antwort|zug"
    r"|étape|réponse|message|passo|resposta|mensagem)"
)
DETERMINERS = r"(?:this|the|that|its|la|el|esta|este|der|die|das|diese[rns]?|cette|le|a|o|essa)"
# The clause takes the number back or bounds it, or counts points that were lost.
NEGATIONS = (
    r"(?:\b(?:not|never|cannot|hardly|nor|neither|without|no|nunca|tampoco|sin|nicht|kein\w{0,2}|pas"
    r"|não|non|jamais)\b|n['’]t\b)(?:\s\w+){0,4}?\s?",
    r"(?:不是|不会|不能|不该|不应|没有|并非|不值)\w{0,8}",
    r"\b(?:lost|loses?|minus|deduct\w{0,3}|subtract\w{0,3}|resto|quito|menos)\s(?:\w+\s){0,2}|[扣减]",
)
TURNS = r"\b(?:but|pero|sino|aber|mais|mas|ma|sondern|however|rather)\b|而是|但|不过"
BOUNDS = (
    r"\b(?:at least|at most|(?:more|less|fewer|higher|lower|better|worse|rather|other) than|than"
    r"|over|under|above|below|up to|minimum of|maximum of|nearly|almost|instead of|between|beyond"
    r"|al menos|más de|menos de|por encima de|por debajo de|casi|hasta|entre|en vez de|mindestens"
    r"|höchstens|über|unter|fast|zwischen|au moins|presque|pelo menos|quase|almeno|quasi)",
    r"(?:至少|最多|超过|低于|高于|不到|接近|将近|少于|多于)",
)
BOUNDS_AFTER = (
    r"\s?(?:or (?:more|higher|less|lower|above|below|so)\b|o (?:más|menos)\b|以上|以下)|-ish\b"
)
# The number would hold in a case that is not so, or is one that the rater let go: "had it been
# polite, I would give a 5", "I was tempted to give a 5". What follows a turn is said in earnest.
_NOT_SO = r"(?:were|was|had|hadn['’]t|weren['’]t|wasn['’]t|could have|would have)"
UNREAL = (
    rf"\bif\s(?!(?:i|we)\s(?:had to|were to|was to))(?:[\w'’]+\s){{1,5}}?{_NOT_SO}\b",
    r"\b(?:had|were)\s(?:it|this|that|the|he|she|they|there)\s(?:\w+\s){0,4}?(?:been|not|listened"
    r"|more|less|\w+ed)\b",
    r"\b(?:i|we)(?:['’](?:d|ve|m))?\s(?:\w+\s){0,3}?(?:consider(?:ed|ing)?|tempted|hesitat\w{1,3}"
    r"|wanted to|w(?:as|ere) (?:going|about|ready|willing) to|going to|intended|meant to|planned"
    r"|thought (?:about|of)|debated|toyed)\b|\bit(?:['’]s| is| was) tempting\b",
    r"\b(?:wäre|wären|hätte|hätten)\b|\bich\s(?:\w+\s){0,2}?(?:wollte|zögerte|überlegte|erwog|dachte)"
    r"(?! nur| damit)\b|\b(?:wollte|zögerte|überlegte|erwog|dachte) ich\b",
    r"\bs['’i]\s?(?:[\w'’]+\s){0,4}?(?:avait|avaient|était|étaient)\b",
    r"\b(?:pensais|voulais|hésitais|hésité|songeais|failli)\b",
    r"\bsi\s(?:\w+\s){0,4}?(?:hubiera|hubiese|fuera|fuese)\b|\b(?:pensé en|quise|dudé en)\b",
    r"(?:^|[,;:]\s)\W?(?:yo\s|al principio\s|primero\s)?(?:pensaba|quería|iba a|estuve a punto)\b",
    r"\bse\s(?:\w+\s){0,4}?(?:tivesse(?! (?:de|que))|fosse)\b|\b(?:pensei em|quis|hesitei)\b",
    r"(?:^|[,;:]\s)\W?(?:eu\s|no início\s|primeiro\s)?(?:pensava|queria|ia)\b",
    r"(?:本来|本來|本想|原本|原想|差点|差點|要不是|若不是|要是|若非|假如|假若|倘若"
    r"|如果(?!(?:一定|必须|要|让|只)))",
)
UNREAL_TURNS = (
    r"\b(?:but|however|yet|so|still|instead|finally|in the end|ultimately|though|aber|jedoch|doch"
    r"|also|schließlich|mais|donc|finalement|pero|así que|al final|finalmente|mas|porém|então"
    r"|no final)\b|但|不过|不過|可是|最后|最後|最终|最終|所以|现在|現在|只[能给給]"
)
# The same behind the number: "I would give a 5 if it were shorter".
UNREAL_AFTER = (
    r"[\s,，]{0,2}(?:(?:points?|stars?|geben|vergeben)\b[\s,]{0,2})?"
    r"(?:(?:if|had|were|wenn|falls|si|se)\s(?!i\s|we\s|ich\s)|s['’i]\s?)[^.!?\n]{0,30}?"
    r"\b(?:were|was|had|been|not|wäre|hätte|avait|était|hubiera|fuera|tivesse|fosse)\b"
    r"|\s(?:is|was|would be|seems)\s(?:also |just |still |certainly )?(?:possible|conceivable"
    r"|imaginable|arguable|too|excessive|tempting|unfair|wrong)\b"
)
# Behind a number that is explained: 5 means excellent.
DEFINES = (
    r"\s?(?:means?\b|meaning\b|being\b|stands? for\b|represents?\b|indicates?\b|denotes?\b"
    r"|corresponds?\b|is (?:the )?(?:best|worst|highest|lowest|max\w{0,5}|min\w{0,5}|perfect|top)\b"
    r"|would (?:mean|be|indicate|need|require|take|have)\b|significa\b|indica\b|representa\b"
    r"|equivale\b|bedeutet\b|signifie\b|表示|代表|意味|意思是|[为是](?:最|满分)|=\s?[^\W\d])"
)
DEFINES_BEFORE = r"\b(?:where|whereby|donde|wobei|où|onde)\s(?:an?\s)?"
# The number is somebody else's word. Who speaks, and what makes it speech.
SPEAKERS = (
    r"(?:users?|speakers?|person|people|customer|human|chatbot|bot|assistant|system|message|prompt"
    r"|dialogue|conversation|instructions?|text|turn|he|she|they|who|which|someone|somebody|usuari[oa]"
    r"|persona|asistente|mensaje|diálogo|conversación|nutzer(?:in)?|benutzer|nachricht|utilisateur"
    r"|usuário|mensagem|utente|messaggio|it)"
)
SAYS = (
    r"(?:says?|said|asks?|asked|asking|wr(?:ites?|ote|itten)|tells?|told|demand(?:s|ed|ing)?|wants?"
    r"|wanted|requests?|requested|claim(?:s|ed|ing)?|insist(?:s|ed|ing)?|stat(?:es|ed)|mention(?:s|ed)"
    r"|instruct(?:s|ed)?|order(?:s|ed)|begs?|begged|suggest(?:s|ed)|propose[sd]?|rate[sd]?|gave|gives?"
    r"|quotes?|contains?|includes?|dice|dijo|pide|pidió|exige|quiere|escrib(?:e|ió)|afirma|solicita"
    r"|insiste|sagt|schreibt|verlangt|fordert|bittet|dit|demande|écrit|veut|diz|pede"
    r"|escreve|quer|dice|chiede|scrive|vuole)"
)
ATTRIBUTIONS = (
    rf"\b{SPEAKERS}\W{{1,3}}(?:\w+\W{{1,2}}){{0,3}}?{SAYS}\b",
    r"\b(?:was|were|been|am|being|are|is)\s(?:\w+\s){0,2}?"
    r"(?:asked|told|instructed|ordered|requested|demanded|pressed)\b",
    r"\b(?:according to|as per|quot(?:e|es|ed|ing)|según|laut|selon|segundo|secondo)\b",
    r"(?:用户|對方|对方|助手|对话|消息|使用者|他|她|有人)[^。！？\n]{0,12}(?:说|写|要求|请求|让|想|希望|声称|命令|說)",
)
# After it the rater speaks again, in the same sentence.
OWN_VOICE = (
    r"(?:\b(?:so|but|however|therefore|thus|hence|still|yet|pero|así que|aber|deshalb|mais|donc|mas"
    r"|ma)\b[,]?\s(?:\w+\s){0,2}?(?:i|my|we|our|yo|mi|le|ich|meine|je|ma|eu|minha|io)\b(?!\s(?:should"
    r"|must|have to|need|ought))|\w[^.!?\n]{1,80}?,\s(?:i|we)(?:['’](?:d|ll))?\s(?:would\s|will\s)?"
    r"(?:only\s|still\s)?(?:give|rate|score|say|put|assign)\b|(?:但|所以|因此|不过)[，,]?我)"
)
# Behind what was said: "..., says the user".
ATTRIBUTED_AFTER = (
    r"[^.!?\n]{0,12}?,?\s(?:says?|said|wr(?:ites?|ote)|asks?|asked|demands?|dice|dijo|pide|escribe|sagt"
    r"|dit|diz)\s(?:the|el|la|der|die|le|o|a|user|he|she|they)\b"
)
# A line of a transcript.
SPOKEN_LINE = (
    r"^[ \t]{0,3}(?:system|user|human|assistant|chatbot|bot|usuari[oa]|asistente|用户|助手|系统)"
    r"[ \t]{0,2}[:：][^\n]*|^[ \t]{0,3}</?(?:dialogue|response|user|assistant)>[^\n]*"
)
