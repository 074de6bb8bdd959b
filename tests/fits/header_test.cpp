// Cards and headers: values in and out, order and bytes kept, long strings, hostile cards.
#include <limits>

#include "tests/fits/scratch.h"

using namespace cirrus;
using namespace cirrus::fits;

BOOST_AUTO_TEST_SUITE(header_cards)

BOOST_AUTO_TEST_CASE(values_are_read_as_the_standard_writes_them) {
  // Forms of section 4.2 of the FITS standard 4.0, and of the real headers in the test data.
  const Header header = Header::from_lines(
      "INT     =                  -42 / an integer\n"
      "PLUS    =                  +42\n"
      "REAL    =                 167. / no digits behind the point\n"
      "EXPO    = -9.515000000000000E+02 / too wide for column 30\n"
      "FORTRAN =              2.5D-03\n"
      "TRUE    =                    T\n"
      "FALSE   =                    F\n"
      "TEXT    = 'O''Hara / not a comment  ' / a comment\n"
      "EMPTY   = ''\n"
      "UNDEF   =                      / nothing\n"
      "FREE    = 7\n"
      "BARE    =7\n"
      "WORDS   = MJy/sr\n"
      "NAN     = NaN\n"
      "HUGE    = 1E999\n"
      "HIERARCH ESO DET CHIP1 PIXEL = 3.5 / long keyword\n"
      "COMMENT = 5 / a comment, not a value\n"
      "        = 6\n");
  BOOST_TEST(header.get<int>("INT").value() == -42);
  BOOST_TEST(header.get<int>("PLUS").value() == 42);
  BOOST_TEST(header.get<double>("REAL").value() == 167.0);
  BOOST_TEST(header.get<int>("REAL").value() == 167);
  BOOST_TEST(header.get<double>("EXPO").value() == -951.5);
  BOOST_TEST(header.get<double>("FORTRAN").value() == 0.0025);
  BOOST_TEST(header.get<bool>("TRUE").value());
  BOOST_TEST(!header.get<bool>("FALSE").value());
  BOOST_TEST(header.get<std::string>("TEXT").value() == "O'Hara / not a comment");
  BOOST_TEST(header.comment("TEXT") == "a comment");
  BOOST_TEST(header.get<std::string>("EMPTY").value() == "");
  BOOST_TEST(header.has("UNDEF"));
  BOOST_TEST(!header.get<double>("UNDEF").has_value());
  BOOST_TEST(header.get<int>("FREE").value() == 7);
  for (const char* key : {"BARE", "WORDS", "NAN", "HUGE", "TEXT"}) BOOST_TEST(!header.get<double>(key).has_value());
  BOOST_TEST(header.get<double>("ESO DET CHIP1 PIXEL").value() == 3.5);
  BOOST_TEST(!header.get<int>("COMMENT").has_value());
  BOOST_TEST(header.commentary("COMMENT").at(0) == "= 5 / a comment, not a value");
}

BOOST_AUTO_TEST_CASE(doubles_come_back_exactly) {
  for (const double value :
       {1.0 / 3.0, -951.5, 6.02214076e23, 4.9e-324, 1.7976931348623157e308, 0.1, 75.282, -0.0, 1e22}) {
    Header header;
    header.set("X", value, "a number");
    BOOST_TEST(header.get<double>("X").value() == value);
    BOOST_TEST(header.cards()[0].text().size() == 80u);
    BOOST_TEST(header.cards()[0].value_text().find('.') != std::string::npos);
  }
  Header header;
  header.set("X", std::numeric_limits<double>::quiet_NaN());
  BOOST_TEST(header.has("X"));
  BOOST_TEST(!header.get<double>("X").has_value());  // an undefined value: FITS has no NaN here
}

BOOST_AUTO_TEST_CASE(setting_a_value_touches_only_its_card) {
  const std::string lines =
      "SIMPLE  =                    T / Written by IDL\n"
      "CRPIX1  =              -51.0000 /\n"
      "COMMENT   kept   as it is\n"
      "\n"
      "CRPIX1  =                   7.0 / the second of two\n"
      "ODD KEY / kept too\n"
      "HISTORY last";
  Header header = Header::from_lines(lines);
  header.set("CRPIX1", -205.5);
  header.set("NEW", 3, "at the end");
  const Header before = Header::from_lines(lines);
  BOOST_TEST(header.size() == before.size() + 1);
  for (std::size_t i = 0; i < before.size(); ++i) {
    if (i != 1) BOOST_TEST(header.cards()[i].text() == before.cards()[i].text());
  }
  BOOST_TEST(header.cards()[1].text() == Card("CRPIX1  =               -205.5").text());
  BOOST_TEST(header.cards().back().text() == Card("NEW     =                    3 / at the end").text());
  header.set_at(4, 8.5);
  BOOST_TEST(header.cards()[4].text() == Card("CRPIX1  =                  8.5 / the second of two").text());
  BOOST_TEST(header.erase("CRPIX1") == 2u);
}

BOOST_AUTO_TEST_CASE(long_strings_continue_and_shrink_again) {
  Header header = Header::from_lines("BEFORE  = 1\nLONG    = 'short   ' / why\nAFTER   = 2");
  std::string value;
  for (int i = 0; i < 30; ++i) value += "part " + std::to_string(i) + " it's ";
  value += "end";
  header.set("LONG", value);
  BOOST_TEST(header.get<std::string>("LONG").value() == value);
  BOOST_TEST(header.comment("LONG") == "why");
  BOOST_TEST(header.find("CONTINUE").value() == 2u);
  BOOST_TEST(header.get<int>("AFTER").value() == 2);
  for (const Card& card : header.cards()) BOOST_TEST(card.text().size() == 80u);
  header.insert_after("LONG", "NEXT", 5);
  BOOST_TEST(header.find("NEXT").value() + 1 == header.find("AFTER").value());
  header.set("LONG", std::string("short again"));
  BOOST_TEST(header.size() == 4u);
  header.set("LONG", value);
  BOOST_TEST(header.erase("LONG") == 1u);
  BOOST_TEST(!header.has("CONTINUE"));
  BOOST_TEST(header.size() == 3u);
  header.set("ESO LONG NAME", std::string(200, 'x'));
  BOOST_TEST(header.get<std::string>("ESO LONG NAME").value() == std::string(200, 'x'));
}

BOOST_AUTO_TEST_CASE(history_breaks_at_72_columns) {
  Header header;
  header.add_history(std::string(60, 'a') + " " + std::string(20, 'b') + "\nsecond line");
  header.add_history(std::string(150, 'c'));
  const auto lines = header.commentary("HISTORY");
  BOOST_REQUIRE(lines.size() == 6u);
  BOOST_TEST(lines[0] == std::string(60, 'a'));
  BOOST_TEST(lines[1] == std::string(20, 'b'));
  BOOST_TEST(lines[2] == "second line");
  BOOST_TEST(lines[3] == std::string(72, 'c'));
  BOOST_TEST(lines[5] == std::string(6, 'c'));
  header.add_comment("caf\xc3\xa9");
  BOOST_TEST(header.commentary("COMMENT").at(0) == "caf??");  // FITS headers are ASCII
}

BOOST_AUTO_TEST_CASE(cards_are_renamed) {
  Header header = Header::from_lines("RADECSYS= 'FK5     '           / frame\nEPOCH   = 1950.0");
  BOOST_TEST(header.rename("RADECSYS", "RADESYS") == 1u);
  BOOST_TEST(header.cards()[0].text() == Card("RADESYS = 'FK5     '           / frame").text());
}

BOOST_AUTO_TEST_SUITE_END()

BOOST_AUTO_TEST_SUITE(header_torture)

BOOST_AUTO_TEST_CASE(bytes_survive_parsing_and_printing) {
  std::string bytes;
  for (int i = 0; i < 1500; ++i) {
    bytes += Card("KEY" + std::to_string(i % 1000), static_cast<std::int64_t>(i), "duplicates from 1000 on").text();
  }
  for (const char* card :
       {"", "        blank keyword with text", "HIERARCH no value indicator here", "CONTINUE  'orphan'",
        "BROKEN  = 'no closing quote", "SLASHES = / / /", "=", "        = 3",
        "LONELY  = 'continues &' / but nothing follows", "BMAJ    =                      / undefined"}) {
    bytes += Card(card).text();
  }
  const std::string full = bytes + Card("END").text() + "rubbish behind END is not read";
  std::vector<std::string> warnings;
  Header header = Header::parse(full, &warnings);
  BOOST_TEST(warnings.empty());
  BOOST_TEST(header.size() == 1510u);
  const std::string text = header.text();
  BOOST_TEST(text.size() % 2880 == 0u);
  BOOST_TEST(text.substr(0, bytes.size()) == bytes);
  BOOST_TEST(header.get<int>("KEY7").value() == 7);
  BOOST_TEST(header.get<std::string>("LONELY").value() == "continues &");
  BOOST_TEST(!header.get<double>("BMAJ").has_value());
}

BOOST_AUTO_TEST_CASE(forbidden_bytes_become_blanks_with_one_warning) {
  const std::string bytes = Card("OBJECT  = 'Orion\nnebula' / caf\xe9").text() + Card("A       = 1\t").text() +
                            std::string("B       = 2", 11);  // cut in the middle of a card, no END
  std::vector<std::string> warnings;
  const Header header = Header::parse(bytes, &warnings);
  BOOST_TEST(warnings.size() == 1u);
  BOOST_TEST(warnings[0].find("2 header card") == 0u);
  BOOST_TEST(header.get<std::string>("OBJECT").value() == "Orion nebula");
  BOOST_TEST(header.get<int>("B").value() == 2);
}

BOOST_AUTO_TEST_SUITE_END()
