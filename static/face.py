"""Makes the display face of the pages: python3 face.py SOURCE.ttf OUTPUT

The source is Besley Medium. OUTPUT.woff2 is for browsers, OUTPUT.ttf for pictures that
are drawn without one. Both hold the same glyphs: Latin as Europe writes it, figures and
punctuation, with kerning and tabular figures. Other scripts fall back to the reader's faces.

It needs fontTools with brotli. The same source gives the same bytes.
"""
import sys

from fontTools import subset
from fontTools.pens.transformPen import TransformPen
from fontTools.pens.ttGlyphPen import TTGlyphPen
from fontTools.ttLib import TTFont
from fontTools.ttLib.scaleUpem import scale_upem

CHARACTERS = "0020-007E,00A0-017F,0218-021B,1E9E,2009,2013-2014,2018-201A,201C-201E,2022,2026,20AC,2212"


def mend_tabular_zero(face):
    """The source's tabular zero is narrower and lighter than its other tabular figures. It is
    drawn anew from the proportional one."""
    plain, tabular, other = "zero", "uniFF10", "uniFF11"
    glyphs, widths = face["glyf"], face["hmtx"]
    width = widths[other][0]
    margin = 80 * width // widths[plain][0]
    shape = glyphs[plain]
    scale = (width - 2 * margin) / (shape.xMax - shape.xMin)
    pen = TTGlyphPen(None)
    shape.draw(TransformPen(pen, (scale, 0, 0, 1, margin - shape.xMin * scale, 0)), glyphs)
    glyphs[tabular] = pen.glyph()
    glyphs[tabular].recalcBounds(glyphs)
    widths[tabular] = (width, glyphs[tabular].xMin)


def main(source, output):
    face = TTFont(source, recalcTimestamp=False)
    mend_tabular_zero(face)
    scale_upem(face, 1000)  # half the source's grid: fewer bytes for each point
    options = subset.Options(layout_features=["kern", "tnum", "liga", "mark"], hinting=False, glyph_names=False,
                             name_IDs=[0, 1, 2, 3, 4, 5, 6, 13, 14])
    options.drop_tables += ["STAT", "gasp"]
    chosen = subset.Subsetter(options)
    chosen.populate(unicodes=subset.parse_unicodes(CHARACTERS))
    chosen.subset(face)
    face.save(output + ".ttf")
    face.flavor = "woff2"
    face.save(output + ".woff2")


main(*sys.argv[1:])
