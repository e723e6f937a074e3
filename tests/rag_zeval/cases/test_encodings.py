"""The encoding of a text is named from a row, or from a few, in the languages of the encodings that programs write."""

import pytest

from rag_zeval.cases.encodings import likely_encoding

TEXTS = {
    "cp1252": (
        "¿Dónde está la estación?,Detrás del número 8: “allí”.",
        "Quel est le taux du prêt ?,Il s’élève à 4 % – d’après la société mère.",
        "Wann öffnet das Haus?,Um neun; es schließt früh.",
        "Onde fica a praça?,À direita da estação; não é longe.",
        "Perché è chiuso?,È lunedì: così dice l’università.",
        "Var är kontoret på lördag?,Det är på Åsögatan.",
        "Hvor ligger det på søndag?,I nærheden af Nørregade.",
        "What is the price?,It’s £5 – “cheap” at 20°.",
    ),
    "cp1250": (
        "Gdzie leżą książki?,Na półce; są zielone.",
        "Kde je kancelář?,Ve třetím poschodí můžete počkat.",
        "Kol\u0027ko stojí lístok?,Päť eur; v pokladni vľavo, tretí dôm.",
        "Hol van a belépő?,Az első emeleten, a fűtő mögött.",
        "Unde este gara?,Lângă piaţă, în faţă.",
        "Gdje je učionica?,Na trećem katu, već gužva.",
    ),
    "cp1254": ("Müze ne zaman açılıyor?,Sabah dokuzda; pazartesi günü kapalıdır.",),
    "cp1257": ("Kur yra biuras?,Trečiame aukšte; mokėti galite ryte, pirmą valandą.",),
    "mac_roman": ("Wann öffnet das Haus?,Um neun; es schließt früh.", "Où est la société ?,À côté du théâtre."),
    "cp850": ("Wann öffnet das Haus?,Um neun; es schließt früh.", "Onde fica a praça?,Não é longe da estação."),
    "cp1251": ("Где находится музей?,На третьем этаже.", "Скільки коштує квиток?,П\u0027ять гривень."),
    "cp1253": ("Πού είναι το γραφείο;,Στον τρίτο όροφο.",),
    "cp1256": ("أين يقع المكتب؟,يقع المكتب في الطابق الثالث.",),
    "gb18030": ("博物馆几点开门？,早上九点开门。", "日期,提问,回答"),
    "big5": ("辦公室在哪裡？,辦公室在三樓。",),
    "shift_jis": ("博物館は何時に開きますか？,朝九時に開きます。",),
    "euc_kr": ("사무실은 어디에 있습니까?,삼 층에 있습니다.",),
    "utf_16_le": ("博物馆几点开门？,早上九点开门。",),
}


@pytest.mark.parametrize("rows", [1, 3, 20])
@pytest.mark.parametrize("encoding", TEXTS)
def test_a_text_is_read_rightly_in_the_encoding_that_is_named(encoding: str, rows: int) -> None:
    for text in TEXTS[encoding]:
        content = f"{text}\n".encode(encoding) * rows
        named = likely_encoding(content)
        assert named and content.decode(named) == content.decode(encoding), (text, named)


@pytest.mark.parametrize("encoding", TEXTS)
def test_a_text_of_several_languages_is_named_too(encoding: str) -> None:
    content = "\n".join(TEXTS[encoding]).encode(encoding)
    named = likely_encoding(content)
    assert named and content.decode(named) == content.decode(encoding)
